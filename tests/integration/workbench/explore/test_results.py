"""The question of the Results view reads what the commands write, and says what is wrong with other files."""

import bertscope
import pandas as pd
import pytest
from bertscope_workbench.command.views.benchmark_files import document as benchmark_document
from bertscope_workbench.command.views.output import json_text
from bertscope_workbench.command.views.sweep_files import write_effects
from bertscope_workbench.papers.documents import claims_document
from bertscope_workbench.papers.run import run_claims

from tests.support.claims import CLAIMS, Hosted
from tests.support.page import opened


@pytest.fixture(scope="module")
def table(host):
    prompts = [(f"{word} is the capital of [MASK].", "the") for word in ("Paris", "Rome", "Oslo", "Bern", "Lima")]
    with bertscope.Client(host.target) as client, client.sweep_heads(bertscope.ClozePrompts(prompts)) as sweep:
        return sweep.table()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["sweep.json", "sweep.parquet", pytest.param("sweep.csv", marks=pytest.mark.slow)],
)
def test_a_sweep(page, table, tmp_path, name):
    path = tmp_path / name
    if name.endswith("parquet"):
        table.to_pandas().to_parquet(path)
    else:
        write_effects(table, path)
    effects, rows = page.ask("results", opened(name, path.read_bytes()))
    expected = {(effect.layer, effect.head): effect.metrics["loss"] for effect in table.effects}
    found = {(each["layer"], each["head"]): each for each in effects["effects"]["loss"]}
    assert found.keys() == expected.keys()
    for place, each in found.items():
        assert each["difference"] == pytest.approx(expected[place].difference)
        assert each["low"] == (None if expected[place].low is None else pytest.approx(expected[place].low))
    assert rows["table"]["total"] == len(expected) * len(table.effects[0].metrics)
    assert "metric" in rows["table"]["columns"]


@pytest.mark.slow
def test_a_benchmark(page, host):
    with bertscope.Client(host.target) as client:
        report = client.benchmark_models(["bert"], lengths=[8], min_seconds=0.05)
    (event,) = page.ask("results", opened("benchmark.json", json_text(benchmark_document(report)).encode()))
    assert event["report"]["baseline"] == "models/bert"
    assert event["report"]["models"][0]["speeds"][0]["length"] == 8


@pytest.mark.slow
def test_another_table(page, tmp_path):
    path = tmp_path / "x.parquet"
    pd.DataFrame({"word": ["a", "<b>"], "share": [0.5, float("nan")]}).to_parquet(path)
    (event,) = page.ask("results", opened("x.parquet", path.read_bytes()))
    assert event["table"] == {"columns": ["word", "share"], "rows": [["a", 0.5], ["<b>", None]], "total": 2}


def test_a_grid_has_a_limit(page):
    (event,) = page.ask("results", opened("x.csv", b"layer,head,difference\n1000000000,0,1\n"))
    assert "table" in event


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "part"),
    [
        (opened("x.txt", b"x"), "must end with"),
        ({"name": "x.json", "data": "not base64"}, "must be base64"),
        (opened("x.json", b"{"), "is no .json file"),
        (opened("x.json", b'{"a": 1}'), "no list of results"),
        (opened("x.parquet", b"PAR1"), "is no .parquet file"),
        (opened("x.csv", b"n\n" + b"1\n" * 200_001), "more than 200,000 rows"),
        (opened("x.csv", b""), "no rows"),
        (opened("x.csv", b"\xff\xfe\x00"), "is no .csv file"),
        (opened("x.json", b"[" * 100_000), "is no .json file"),
    ],
)
def test_wrong_files(page, body, part):
    assert part in page.refusal("results", body)["message"]


def test_claims(page):
    primer = run_claims(Hosted("a", "b"), CLAIMS, models=["a", "b"])
    document = claims_document(primer)
    (event,) = page.ask("results", opened("primer.json", json_text(document).encode()))
    found = event["claims"]
    assert found["models"] == ["a", "b"]
    assert [claim["verdicts"] for claim in found["claims"]] == [claim["verdicts"] for claim in document["claims"]]
    first = found["claims"][0]["tests"][0]
    assert first["measured"] == "share of right answers"
    assert first["results"][1]["value"] == 0.9
    assert "picture" not in first["results"][0]
    broken = document | {"claims": [{"name": "no verdicts"}]}
    assert "is no .json file" in page.refusal("results", opened("primer.json", json_text(broken).encode()))["message"]
