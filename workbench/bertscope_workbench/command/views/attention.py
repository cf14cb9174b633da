"""Formats attention maps as tables and as JSON, and summarises heads by patterns (Clark et al., Kovaleva et al., both 2019)."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from bertscope import AttentionMaps
from bertscope.values.columns import Column
from bertscope.values.documents import fields_of
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from bertscope_workbench.command.views.output import print_cut, printable, shade, table, titled
from bertscope_workbench.plots.attention_page import name_of, place_of

STRONGEST_PAIRS = 12

PerHead = npt.NDArray[np.float64]
MIN_CELL = 3
"""Characters of a weight in a map: ".07"."""


def attention_patterns(maps: AttentionMaps) -> Mapping[str, PerHead]:
    """Returns the mean weight that the tokens of a text give to a place, [layers, heads] for each place.

    The places: the first special token, the other special tokens together, the token itself, the one before, the next.
    """
    attention = maps.attention.astype(np.float64)
    special = [index for index, token in enumerate(maps.tokens) if token.special]
    patterns: dict[str, PerHead] = {}
    if special:
        patterns[maps.tokens[special[0]].text] = attention[..., special[0]].mean(-1)
    if special[1:]:
        patterns[maps.tokens[special[-1]].text] = attention[..., special[1:]].sum(-1).mean(-1)
    patterns["itself"] = _diagonal_mean(attention, 0)
    patterns["previous"] = _diagonal_mean(attention, -1)
    patterns["next"] = _diagonal_mean(attention, 1)
    return patterns


def entropy_nats(maps: AttentionMaps) -> PerHead:
    """Returns the mean entropy of the rows of each head, nats, [layers, heads]; Clark et al. 2019. 0: one token; ln L: all L
    alike."""
    attention = maps.attention.astype(np.float64)
    logarithms = np.log(attention, out=np.zeros_like(attention), where=attention > 0)
    entropy: PerHead = -(attention * logarithms).sum(-1).mean(-1)
    return entropy


def _diagonal_mean(attention: npt.NDArray[Any], offset: int) -> PerHead:
    diagonal = np.diagonal(attention, offset, axis1=-2, axis2=-1)
    mean: PerHead = diagonal.mean(-1) if diagonal.shape[-1] else np.zeros(attention.shape[:2])
    return mean


def document(maps: AttentionMaps) -> dict[str, Any]:
    """Returns the maps in JSON types; weights are rounded to 7 digits, about the precision of float32."""
    names = [field.name for field in dataclasses.fields(maps) if field.name not in ("input_index", "attention")]
    return {**fields_of(maps, *names), "attention": np.round(maps.attention.astype(np.float64), 7).tolist()}


def print_maps(screen: Console, maps: AttentionMaps) -> None:
    """Prints maps. One head: its map, or its strongest pairs. One layer: a row for each head. More: a row for each layer."""
    print_cut(screen, maps.truncated_tokens)
    if maps.quantity != "weights":
        screen.print(f"{name_of(maps)}; each row divided by its sum", style="dim", soft_wrap=True)
        maps = shares(maps)
    if len(maps.layers) == len(maps.heads) == 1:
        widths = [printable(token.text).cell_len for token in maps.tokens]
        width = max(widths) + 1 + sum(max(MIN_CELL, width) + 1 for width in widths)
        screen.print(map_table(maps) if width <= screen.width else pairs_table(maps))
    elif len(maps.layers) == 1:
        screen.print(heads_table(maps))
    else:
        screen.print(layers_table(maps))


def shares(maps: AttentionMaps) -> AttentionMaps:
    """Returns the maps with each row divided by its sum, in float32."""
    numbers = maps.attention.astype(np.float32)
    total = numbers.sum(axis=-1, keepdims=True)
    return dataclasses.replace(maps, attention=numbers / np.where(total > 0, total, 1))


def layers_table(maps: AttentionMaps) -> Group:
    """Returns, for each layer, the head that attends most to each place, and its mean weight there."""
    patterns = attention_patterns(maps)
    title = (
        "in each layer, the head that attends most to each place, and its mean weight there"
        if maps.by_head
        else "mean at each place"
    )

    def cell(weights: PerHead, index: int) -> Text:
        best = int(weights[index].argmax())
        weight = weights[index, best]
        return shade(f"{maps.heads[best]}  {weight:.2f}" if maps.by_head else f"{weight:.2f}", weight)

    rows = ([layer, *(cell(weights, index) for weights in patterns.values())] for index, layer in enumerate(maps.layers))
    return titled(title, table([Column("layer"), *map(Column, patterns)], rows))


def heads_table(maps: AttentionMaps) -> Group:
    """Returns, for each head of one layer, its mean weight at each place and the entropy of its rows."""
    patterns = attention_patterns(maps)
    rows = zip(maps.heads, *(values[0] for values in patterns.values()), entropy_nats(maps)[0], strict=True)
    columns = [Column("head"), *(Column(name, form="shade") for name in patterns), Column("entropy, nats", form=".2f")]
    return titled(f"layer {maps.layers[0]}: mean weight at each place", table(columns, rows))


def map_table(maps: AttentionMaps) -> Group:
    """Returns the whole map of one head: a row attends to the columns."""
    title = f"{place_of(maps, maps.layers[0], maps.heads[0])}: each row attends to the columns"
    names = [printable(token.text) for token in maps.tokens]
    result = Table(box=None, padding=(0, 1, 0, 0))
    result.add_column("", no_wrap=True)
    for name in names:
        result.add_column(name, justify="right", no_wrap=True, min_width=max(MIN_CELL, name.cell_len))
    for name, row in zip(names, maps.attention[0, 0], strict=True):
        cells = (shade(f"{weight:.2f}".removeprefix("0"), float(weight)) for weight in row)
        result.add_row(Text(name.plain, style="bold"), *cells)
    return titled(title, result)


def pairs_table(maps: AttentionMaps) -> Group:
    """Returns the strongest weights of one head, for a map that does not fit the screen."""
    weights = maps.attention[0, 0]
    order = np.argsort(weights, axis=None)[::-1][:STRONGEST_PAIRS]
    title = f"{place_of(maps, maps.layers[0], maps.heads[0])}: strongest weights (the whole map is wider than the screen)"
    texts = [token.text for token in maps.tokens]
    rows = (
        [texts[row], row, texts[column], column, weights[row, column]]
        for row, column in zip(*np.unravel_index(order, weights.shape), strict=True)
    )
    return titled(title, table(["from", "#", "to", "#", "weight#shade"], rows))
