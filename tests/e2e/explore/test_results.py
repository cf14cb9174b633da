"""The Results view in a real browser."""

import re
from collections.abc import Callable
from pathlib import Path

import bertscope
import pytest
from bertscope_workbench.command.views.sweep_files import write_effects
from playwright.sync_api import expect

from tests.support.browsing import Watched

pytestmark = pytest.mark.slow


def test_a_sweep_and_a_table_that_is_hostile(visit: Callable[..., Watched], target: str, tmp_path: Path) -> None:
    prompts = [(f"{word} is the capital of [MASK].", "france") for word in ("Paris", "Rome", "Oslo", "Bern", "Lima")]
    with bertscope.Client(target) as client, client.sweep_heads(bertscope.ClozePrompts(prompts), scope="heads") as sweep:
        table = sweep.table()
    write_effects(table, tmp_path / "sweep.csv")
    tab = visit("#results").tab
    tab.get_by_label("A file that bertscope wrote").set_input_files(tmp_path / "sweep.csv")
    worst = max(table.effects, key=lambda effect: effect.metrics["loss"].difference)
    difference = worst.metrics["loss"].difference
    cell = tab.get_by_role("gridcell", name=re.compile(rf"^layer {worst.layer} head {worst.head},"))
    expect(cell).to_have_accessible_name(f"layer {worst.layer} head {worst.head}, loss +{difference:.4f}")
    expect(tab.get_by_text(f"{3 * len(table.effects)} rows")).to_be_visible()
    tab.get_by_role("radio", name="accuracy").check(force=True)
    expect(cell).to_have_accessible_name(re.compile("accuracy"))
    hostile = tmp_path / "table.csv"
    hostile.write_text('word,share\n"<img src=x onerror=window.hurt=1>",0.5\n')
    tab.get_by_label("A file that bertscope wrote").set_input_files(hostile)
    expect(tab.get_by_role("cell", name="<img src=x onerror=window.hurt=1>")).to_be_visible()
    assert tab.evaluate("window.hurt") is None
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    tab.get_by_label("A file that bertscope wrote").set_input_files(broken)
    expect(tab.locator("[data-kind=error]")).to_contain_text("is no .json file that bertscope writes")


def test_a_greedy_sweep_is_a_curve_for_each_metric(visit: Callable[..., Watched], target: str, tmp_path: Path) -> None:
    prompts = [(f"{word} is the capital of [MASK].", "france") for word in ("Paris", "Rome", "Oslo", "Bern", "Lima")]
    greedy = bertscope.Greedy(max_removed=4)
    with bertscope.Client(target) as client, client.sweep_heads(bertscope.ClozePrompts(prompts), greedy=greedy) as sweep:
        table = sweep.table()
    write_effects(table, tmp_path / "greedy.json")
    tab = visit("#results").tab
    tab.get_by_label("A file that bertscope wrote").set_input_files(tmp_path / "greedy.json")
    tab.get_by_label("Show").select_option("loss: score")
    drawing = tab.get_by_role("img", name="loss: score by share of all heads that are removed")
    expect(drawing).to_be_visible()
    last = table.points[-1]
    said = f"loss: score, {100 * last.share_removed:.0f}\u00a0%: {last.metrics['loss'].score:.3g}"
    expect(drawing.locator("title", has_text=said)).to_have_count(1)
    assert "measure=loss" in tab.url
