"""The Results view in a real browser."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import cast

import bertscope
import pytest
from bertscope_workbench.command.views.output import json_text
from bertscope_workbench.command.views.sweep_files import write_effects
from bertscope_workbench.primer.documents import primer_document
from bertscope_workbench.primer.run import run_primer
from playwright.sync_api import expect

from tests.support.browsing import Watched
from tests.support.claims import CLAIMS, Hosted

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


def test_claims_open_to_their_tests(visit: Callable[..., Watched], tmp_path: Path) -> None:
    primer = run_primer(cast(bertscope.Client, Hosted("a", "b")), CLAIMS, models=["a", "b"])
    (tmp_path / "primer.json").write_text(json_text(primer_document(primer)))
    tab = visit("#results").tab
    tab.get_by_label("A file that bertscope wrote").set_input_files(tmp_path / "primer.json")
    section = tab.get_by_role("region", name="4 Knowledge")
    expect(section.locator("summary")).to_have_count(len(CLAIMS))
    expect(section.locator("summary").first).to_contain_text("holds")
    expect(section.get_by_text("A model knows <something>.").first).to_be_hidden()
    section.locator("summary").first.press("Enter")
    expect(section.get_by_text("A model knows <something>.").first).to_be_visible()
    expect(section.get_by_role("cell", name="+40.0 [+28.6, +45.7] points").first).to_be_visible()
    expect(section.get_by_text("no treebank is there").first).to_be_hidden()
