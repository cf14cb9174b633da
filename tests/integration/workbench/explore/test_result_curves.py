"""The Results view finds the curves, the importances and the speeds in what the commands write."""

import csv
import json

import bertscope
import pytest
from bertscope_workbench.command.commands.rank import document as ranking_document
from bertscope_workbench.command.views.benchmark_files import document as benchmark_document
from bertscope_workbench.command.views.output import json_text
from bertscope_workbench.command.views.sweep_files import write_effects

from tests.support.page import opened

PROMPTS = bertscope.ClozePrompts(
    [(f"{word} is the capital of [MASK].", "the") for word in ("Paris", "Rome", "Oslo", "Bern", "Lima")]
)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sweep.json", "sweep.csv"])
def test_a_greedy_sweep(page, host, tmp_path, name):
    greedy = bertscope.Greedy(max_removed=3)
    with bertscope.Client(host.target) as client, client.sweep_heads(PROMPTS, greedy=greedy) as sweep:
        table = sweep.table()
    write_effects(table, tmp_path / name)
    curves, _ = page.ask("results", opened(name, (tmp_path / name).read_bytes()))
    assert curves["curves"]["across"] == "share_removed"
    for metric in table.points[0].metrics:
        (curve,) = curves["curves"]["measures"][f"{metric}: score"]
        points = curve["points"]
        assert [point["x"] for point in points] == [point.share_removed for point in table.points]
        assert [point["y"] for point in points] == pytest.approx([point.metrics[metric].score for point in table.points])


def test_layers(page, host, tmp_path):
    with bertscope.Client(host.target) as client, client.sweep_heads(PROMPTS, scope="layers") as sweep:
        table = sweep.table()
    write_effects(table, tmp_path / "layers.csv")
    curves, _ = page.ask("results", opened("layers.csv", (tmp_path / "layers.csv").read_bytes()))
    (losses,) = curves["curves"]["measures"]["loss: difference"]
    for point, effect in zip(losses["points"], table.effects, strict=True):
        found = effect.metrics["loss"]
        assert (point["x"], point["y"]) == (effect.layer, pytest.approx(found.difference))
        assert point["low"] == pytest.approx(found.low)


def test_a_ranking(page, host):
    with bertscope.Client(host.target) as client:
        ranking = client.rank_heads(PROMPTS)
    effects, _ = page.ask("results", opened("rank.json", json.dumps(ranking_document(ranking)).encode()))
    found = {(each["layer"], each["head"]): each["difference"] for each in effects["effects"]["importance"]}
    assert found == {place: pytest.approx(value) for place, value in zip(found, ranking.importance.flat, strict=True)}


@pytest.mark.slow
def test_speeds_of_published_systems(page, host, tmp_path):
    with bertscope.Client(host.target) as client:
        table = client.benchmark_studies(["DistilBERT"], lengths=[8], min_seconds=0.01).table()
    rows = [dict(row) for row in table.rows()]
    with (tmp_path / "studies.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    files = {
        "studies.json": json_text(benchmark_document(table)).encode(),
        "studies.csv": (tmp_path / "studies.csv").read_bytes(),
    }
    ratio = table.studies[0].measured.speeds[0].latency_speedup
    for name, raw in files.items():
        speedups, _ = page.ask("results", opened(name, raw))
        (found,) = speedups["speedups"]
        assert (found["system"], found["length"]) == (table.studies[0].published.system, 8)
        assert found["ratio"] | {"caveat": ""} == pytest.approx(
            {"value": ratio.value, "low": ratio.low, "high": ratio.high, "verdict": ratio.verdict, "caveat": ""}
        )
