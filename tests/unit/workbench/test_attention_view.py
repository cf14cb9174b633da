"""Quantities beyond weights, printed, drawn and as a page."""

import dataclasses
import io
import json
from pathlib import Path

import bertscope
import numpy as np
import pytest
from bertscope_workbench.command.views.attention import document, print_maps, shares
from bertscope_workbench.plots.attention_page import place_of
from rich.console import Console

from tests.support.drawn import Page, maps_of

TOKENS = ["[CLS]", "the", "cat", "[SEP]"]


def norms_of(layers: tuple[int, ...] = (2, 0), heads: tuple[int, ...] = (1, 3)) -> bertscope.AttentionMaps:
    maps = maps_of(TOKENS, layers, heads)
    return dataclasses.replace(maps, attention=maps.attention * np.float32(7), quantity="norms")


def rollout_of(layers: tuple[int, ...] = (2, 0)) -> bertscope.AttentionMaps:
    return dataclasses.replace(maps_of(TOKENS, layers, (0,)), quantity="rollout")


def printed(maps: bertscope.AttentionMaps) -> str:
    screen = Console(file=io.StringIO(), width=120)
    print_maps(screen, maps)
    return screen.file.getvalue()  # type: ignore[attr-defined]


def test_norms_are_printed_as_shares_of_their_rows():
    np.testing.assert_allclose(shares(norms_of()).attention.sum(-1), 1, atol=1e-6)
    assert "norms; each row divided by its sum" in printed(norms_of())
    assert printed(norms_of()).splitlines()[1:] == printed(maps_of(TOKENS, heads=(1, 3))).splitlines()


def test_rows_of_zeros_stay():
    maps = dataclasses.replace(norms_of(), attention=np.zeros((2, 2, 4, 4), np.float32))
    assert not shares(maps).attention.any()


def test_a_layer_is_printed_without_a_head():
    text = printed(rollout_of())
    assert "rollout; each row" in text
    assert "head" not in text
    assert "layer 2: each row" in printed(rollout_of((2,)))
    assert document(rollout_of())["quantity"] == "rollout"


def test_a_page_scales_to_the_largest_number():
    page = Page(bertscope.attention_page(norms_of()))
    data = json.loads(page.text("script", id="data"))
    assert (data["quantity"], data["by_head"]) == ("norms", True)
    assert data["largest"] == pytest.approx(norms_of().attention.max())
    whole = json.loads(Page(bertscope.attention_page(rollout_of())).text("script", id="data"))
    assert (whole["quantity"], whole["by_head"]) == ("rollout", False)
    weights = json.loads(Page(bertscope.attention_page(maps_of(TOKENS))).text("script", id="data"))
    assert (weights["quantity"], weights["largest"]) == ("attention", 1.0)


def test_maps_are_named():
    assert place_of(norms_of(), 2, 1) == "layer 2, head 1"
    assert place_of(rollout_of(), 2, 0) == "layer 2"


def test_layers_are_drawn_side_by_side():
    figure = bertscope.plot_attention(rollout_of())
    titles = [axes.get_title() for axes in figure.axes if axes.images]
    assert titles[:2] == ["layer 2", "layer 0"]


def test_a_page_of_some_heads_shows_itself_and_is_saved(tmp_path: Path):
    maps = maps_of(["[CLS]", "</script><img src=x onerror=hurt()>", "[SEP]"], (2, 0), (1, 3))
    page = maps.show(layer=0, head=[3], title="Two tokens")
    assert page.html == bertscope.attention_page(maps, 0, [3], title="Two tokens")
    page.save(tmp_path / "page")
    assert (tmp_path / "page").read_text("utf-8") == page.html
    shown = page._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert "<img" not in shown
    assert len(repr(page)) < 80
    with pytest.raises(KeyError):
        maps.show(layer=1)
