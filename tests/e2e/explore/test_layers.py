"""The Layers view in a real browser: words and numbers are the client's; links, keyboard, hostile texts, files of probes."""

import json
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote_plus

import bertscope
import pytest
from bertscope.questions.representations.lens import LensText
from playwright.sync_api import Page as Tab
from playwright.sync_api import Route, expect

from tests.support.browsing import Watched
from tests.support.disturbance import COMMAND

pytestmark = pytest.mark.slow

Visit = Callable[..., Watched]
TEXT = "The keys to the cabinet [MASK] on the table."
HOSTILE = '<img src=x onerror="window.hurt=1">'
WORDS = """[...document.querySelectorAll('.word-grid [role=row]')].slice(1)
    .map(row => [...row.querySelectorAll('.word-text')].map(each => each.textContent))"""
ROWS = [
    {"layer": 0, "accuracy": 0.7, "low": 0.4, "high": 0.9, "control": 0.6, "selectivity": 0.1, "loss": 0.62},
    {"layer": 1, "accuracy": 0.8, "low": 0.5, "high": 0.95, "control": 0.4, "selectivity": 0.4, "loss": 0.35},
]
CSV = "\n".join([",".join(ROWS[0]), *(",".join(map(str, row.values())) for row in ROWS)])


def shows(tab: Tab, read: LensText) -> None:
    """Waits for the words of the last layer, and compares those of all."""
    expected = [[position.layers[number].top[0].token for position in read.positions] for number in reversed(read.layers)]
    wanted = json.dumps(expected, ensure_ascii=False, separators=(",", ":"))
    tab.wait_for_function(f"wanted => JSON.stringify({WORDS}) === wanted", arg=wanted)


def test_cells_links_and_keys(visit: Visit, client: bertscope.Client) -> None:
    tab = visit("#layers").tab
    (read,) = client.read_layers(TEXT, all_pieces=True)
    shows(tab, read)
    mask = next(index for index, position in enumerate(read.positions) if position.mask)
    top = tab.get_by_role("region", name="Likeliest words of the cell")
    for entry in read.positions[mask].layers[-1].top[:2]:
        expect(top).to_contain_text(f"{entry.token}{entry.probability * 100:.1f} %")
    tab.locator(".word[aria-current]").focus()
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("ArrowLeft")
    expect(top).to_contain_text(f"Layer {read.layers[-2]}, {read.positions[mask - 1].token.text}")
    tab.get_by_label("Answer to follow").fill("are")
    (followed,) = client.read_layers(TEXT, all_pieces=True, candidates="are", normalisation="final")
    tab.get_by_label("Final normalisation").select_option("final")
    shows(tab, followed)
    tab.get_by_role("radio", name="Its rank").check(force=True)
    score = followed.positions[mask].layers[0].candidates[0]
    cell = tab.get_by_role("gridcell", name=re.compile(r"^layer 0, \[MASK\]:"))
    expect(cell).to_contain_text(f"#{score.rank}")
    before = tab.locator(".word-grid").inner_text()
    tab.reload()
    expect(cell).to_contain_text(f"#{score.rank}")
    assert tab.locator(".word-grid").inner_text() == before
    expect(tab.get_by_label("Answer to follow")).to_have_value("are")
    tab.go_back()
    expect(tab.get_by_role("radio", name="Its rank")).not_to_be_checked()


def test_what_is_copied_computes_the_same(visit: Visit, client: bertscope.Client) -> None:
    tab = visit("#layers?layersnorm=final&layersanswer=are", permissions=["clipboard-read", "clipboard-write"]).tab
    (read,) = client.read_layers(TEXT, all_pieces=True, candidates="are", normalisation="final")
    shows(tab, read)
    tab.get_by_role("button", name="Copy command").click()
    expect(tab.get_by_role("button", name="Copied")).to_be_visible()
    words = shlex.split(tab.evaluate("navigator.clipboard.readText()"))
    told = json.loads(subprocess.run([*COMMAND, *words[1:], "--json"], capture_output=True, text=True, check=True).stdout)
    assert json.dumps(read.positions[1].layers[0].top[0].token) in json.dumps(told)
    tab.get_by_role("button", name="Copy Python").click()
    tab.wait_for_function("navigator.clipboard.readText().then(text => text.startsWith('import'))")
    found: dict[str, bertscope.LensTexts] = {}
    exec(tab.evaluate("navigator.clipboard.readText()"), found)  # that is what it is for
    shows(tab, found["found"][0])


def test_hostile_text_stays_text_and_long_texts_have_windows(visit: Visit) -> None:
    long = f"{HOSTILE} the river " * 12
    tab = visit(f"#layers?text={quote_plus(long)}&layersanswer={quote_plus(HOSTILE)}").tab
    expect(tab.locator(".reason[data-kind=error]")).to_contain_text('"Answer" has')
    tab.get_by_label("Answer to follow").fill("")
    expect(tab.locator(".layers-window")).to_contain_text("tokens 1 to 48 of")
    tab.get_by_role("button", name="Later tokens").click()
    expect(tab.locator(".layers-window")).to_contain_text("tokens 49 to 96 of")
    assert tab.evaluate("window.hurt") is None
    assert tab.locator("main img").count() == 0


def test_files_of_probes(visit: Visit, tmp_path: Path) -> None:
    named = tmp_path / f"{HOSTILE.replace('/', '')}.json"
    named.write_text(json.dumps({"model": "models/bert", "scored": "dev", "layers": ROWS}))
    table, lines = tmp_path / "upos.csv", tmp_path / "upos.jsonl"
    table.write_text(CSV)
    lines.write_text("\n".join(json.dumps(row) for row in ROWS))
    tab = visit("#layers").tab
    files = tab.get_by_label("Open results of bertscope probe")
    files.set_input_files([named, table, lines])
    expect(tab.locator(".curve svg")).to_contain_text("bert, scores of dev")
    tab.get_by_text("Numbers", exact=True).click()
    expect(tab.locator("tbody tr")).to_have_count(6)
    expect(tab.locator("tbody tr").nth(3)).to_contain_text("80.0 %50.0 % to 95.0 %40.0 %+40.00.350")
    drawn = tab.locator(".curve svg").inner_html()
    tab.reload()
    expect(tab.locator(".curve svg")).to_contain_text("bert, scores of dev")
    assert tab.locator(".curve svg").inner_html() == drawn
    tab.get_by_text("Save picture").click()
    with tab.expect_download() as download:
        tab.get_by_role("button", name="Probes, SVG").click()
    assert "layer (0: the embeddings)" in Path(download.value.path()).read_text()
    tab.get_by_role("button", name="Close upos.csv").click()
    expect(tab.locator(".probe-files li")).to_have_count(2)
    assert tab.evaluate("window.hurt") is None


def test_wrong_files(visit: Visit, tmp_path: Path) -> None:
    tab = visit("#layers").tab
    for name, text, part in (
        ("a.json", "{", "is not valid JSON"),
        ("a.json", '{"model": "x"}', 'has no list "layers"'),
        ("a.csv", "layer,loss\n0,1", 'has no number "accuracy" in row 1'),
        ("a.jsonl", '{"layer": 0, "accuracy": 7}', "outside 0 to 1"),
        ("a.png", "x", "is no .json"),
        ("a.parquet", "PAR1", "reads no Parquet"),
    ):
        (tmp_path / name).write_text(text)
        tab.get_by_label("Open results of bertscope probe").set_input_files(tmp_path / name)
        expect(tab.locator("[data-kind=error]")).to_contain_text(part)
        expect(tab.locator(".curve svg")).to_have_count(0)


def test_a_model_without_the_head(visit: Visit) -> None:
    tab = visit("#models").tab

    def headless(route: Route) -> None:
        reply = route.fetch()
        route.fulfill(response=reply, body=reply.text().replace('"cloze"', '"attention"'))

    tab.route("**/api/models", headless)
    tab.reload()
    tab.get_by_role("link", name="Layers").click()
    expect(tab.locator(".reason")).to_contain_text("has no masked-LM head, which this view needs")
    expect(tab.locator(".word-grid")).to_be_hidden()
    expect(tab.get_by_label("Open results of bertscope probe")).to_be_visible()
