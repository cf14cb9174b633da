"""Quantities beyond weights, printed, drawn and as a page."""

import dataclasses
import json
from pathlib import Path

import bertscope
import numpy as np
import pytest
from bertscope_workbench.command.views.attention import document, print_maps, shares
from bertscope_workbench.plots.attention_page import place_of

from tests.support.drawn import Page, maps_of
from tests.support.stored_outputs import printed

TOKENS = ["[CLS]", "the", "cat", "[SEP]"]


def norms_of(layers: tuple[int, ...] = (2, 0), heads: tuple[int, ...] = (1, 3)) -> bertscope.AttentionMaps:
    maps = maps_of(TOKENS, layers, heads)
    return dataclasses.replace(maps, attention=maps.attention * np.float32(7), quantity="norms")


def rollout_of(layers: tuple[int, ...] = (2, 0)) -> bertscope.AttentionMaps:
    return dataclasses.replace(maps_of(TOKENS, layers, (0,)), quantity="rollout")


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


def test_quantities_beyond_weights(stored) -> None:
    zeros = dataclasses.replace(norms_of(), attention=np.zeros((2, 2, 4, 4), np.float32))
    assert not shares(zeros).attention.any()
    every = {
        "weights": maps_of(TOKENS, heads=(1, 3)),
        "norms": norms_of(),
        "rollout": rollout_of(),
        "one layer": rollout_of((2,)),
    }
    pages = {}
    for name, maps in every.items():
        data = json.loads(Page(bertscope.attention_page(maps)).text("script", id="data"))
        pages[name] = {key: value for key, value in data.items() if key != "weights"}
    stored(
        printed="\n".join(printed(print_maps, maps, width=120) for maps in every.values()),
        pages=pages,
        names=[place_of(norms_of(), 2, 1), place_of(rollout_of(), 2, 0)],
        document=document(rollout_of((2,))),
        figure=bertscope.plot_attention(rollout_of()),
    )
