"""Figures show what they should, and pages hold any text without becoming something else."""

import base64
import json
import re
import shutil
import subprocess
from dataclasses import replace

import bertscope_workbench as workbench
import numpy as np
import pytest
from bertscope_workbench.plots import attention_head
from bertscope_workbench.plots.figures import BOXES

from tests.support.drawn import SOURCE, Page, maps_of
from tests.support.patience import granted
from tests.support.stored_outputs import outcome

NASTY = ["</script><script>alert(1)</script>", "<!--", "{{data}}", "{{title}}", "&amp;", "$x$", "\u2028", '"\\']


def test_a_page_holds_nasty_text_as_text():
    maps = maps_of(NASTY)
    page = Page(workbench.attention_page(maps).html)
    plain = Page(workbench.attention_page(maps_of(["a"])).html)
    assert page.elements == plain.elements
    data = json.loads(page.text("script", id="data"))
    assert data["tokens"] == NASTY
    assert data["model"] == SOURCE.model
    assert page.text("title").strip() == maps.text.strip()


def test_a_page_holds_the_weights():
    maps = maps_of(["a", "b", "c"])
    data = json.loads(Page(workbench.attention_page(maps, layer=0, head=[5, 1]).html).text("script", id="data"))
    assert (data["layers"], data["heads"]) == ([0], [5, 1])
    weights = np.frombuffer(base64.b64decode(data["weights"]), "<u2").reshape(1, 2, 3, 3) / 65535
    np.testing.assert_allclose(weights, maps.attention[1:, [2, 0]], atol=1e-5)


def test_a_page_loads_nothing():
    page = workbench.attention_page(maps_of(["a"])).html
    assert not re.search(r"(?:https?:)?//[a-z]|\bsrc=|\bhref=|url\(|@import|fetch\(", page, re.IGNORECASE)


def test_a_page_that_would_be_too_large_says_so(monkeypatch):
    monkeypatch.setattr("bertscope_workbench.plots.attention_page.MAX_PAGE_WEIGHTS", 10)
    with pytest.raises(ValueError, match="54 weights are too many"):
        workbench.attention_page(maps_of(["a", "b", "c"]))


@pytest.mark.slow
def test_characters_without_a_glyph_are_told_about_once(tmp_path):
    with pytest.warns(UserWarning, match="are boxes in the figure") as heard:
        workbench.save_attention(maps_of(["\ue0d8", "\ue0d9", "a"]), tmp_path / "a.png")
    assert [str(warning.message) for warning in heard] == [BOXES]


def test_thin_diagonals_stay_whole_in_small_maps():
    """Every second token was left out of a map that is smaller than its text, and with it half of a diagonal."""
    weights = np.full((1000, 1000), 0.001, np.float32) + np.eye(1000, k=1, dtype=np.float32)
    small = attention_head.pooled(weights, 240)
    assert small.shape == (200, 200)
    assert (np.maximum(small.diagonal(), 0)[:-1] > 1).all()
    np.testing.assert_array_equal(attention_head.pooled(weights[:7, :7], 240), weights[:7, :7])
    assert attention_head.pooled(np.arange(49.0).reshape(7, 7), 3).tolist() == [[16, 19, 20], [37, 40, 41], [44, 47, 48]]


@pytest.mark.skipif(shutil.which("node") is None, reason="runs JavaScript of the page")
def test_thin_diagonals_stay_whole_in_a_pages_thumbnails():
    page = workbench.attention_page(maps_of(["a"])).html
    (function,) = re.findall(r"^function pooled\(.*?^}", page, re.DOTALL | re.MULTILINE)
    code = f"""
    const length = 7, area = 49, weights = Uint16Array.from({{ length: area }}, (_, at) => at), start = () => 0;
    {function}
    console.log(JSON.stringify([pooled(0, 0, 3), pooled(0, 0, 7)].map((one) => [one.side, Array.from(one.found)])));
    """
    done = subprocess.run(["node", "-e", code], capture_output=True, text=True, check=True, timeout=granted(60))
    small, whole = json.loads(done.stdout)
    assert small == [3, [16, 19, 20, 37, 40, 41, 44, 47, 48]]
    assert whole == [7, list(range(49))]


def test_maps(stored) -> None:
    maps = maps_of(["the", "cat", "$5"])
    long = workbench.plot_attention(maps_of([str(number) for number in range(200)]), layer=0).axes[0]
    choices: list[dict[str, object]] = [{"layer": 1}, {"head": [1, 2]}, {"layer": []}, {"head": []}]
    draws = workbench.plot_attention, workbench.attention_page
    stored(
        one_head=workbench.plot_attention(maps, layer=0, head=3),
        many=workbench.plot_attention(maps),
        on_a_fixed_scale=workbench.plot_attention(maps, layer=0, head=3, fixed_scale=True, dark=True),
        some_tokens_of_many=[label.get_text() for label in long.get_yticklabels()],
        refused=[
            *(outcome(lambda draw=draw, choice=choice: draw(maps, **choice)) for draw in draws for choice in choices),
            lambda: workbench.plot_attention(replace(maps, quantity="norms"), fixed_scale=True),
        ],
    )


def test_the_name_decides_the_kind(tmp_path, monkeypatch, stored) -> None:
    monkeypatch.chdir(tmp_path)
    for name, begins in {"a.png": b"\x89PNG", "a.svg": b"<?xml", "a.PDF": b"%PDF", "a.HTML": b"<!doctype"}.items():
        workbench.save_attention(maps_of(["a", "$", "b"]), name)
        assert (tmp_path / name).read_bytes().startswith(begins)
    saves = {name: getattr(workbench, name) for name in workbench.__all__ if name.startswith("save_")}
    stored(
        refused={
            name: [outcome(lambda save=save, path=path: save(maps_of(["a"]), path)) for path in ("a", "a.gif", "html")]
            for name, save in saves.items()
        }
    )
