"""Attention maps as pictures: matplotlib figures, and an interactive page that needs nothing but a browser.

matplotlib is an extra, `pip install "bertscope[plot]"`, and is imported only when a figure is drawn; pages do
without.
"""

from __future__ import annotations

import base64
import html
import importlib.resources
import json
import math
import re
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bertscope._figures import (
    FIGURE_FORMATS,
    INK,
    add_colorbar,
    new_figure,
    outline,
    require_format,
    set_title,
    shown,
    write,
)
from bertscope.results import AttentionMaps

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAGE_FORMAT = ".html"
COLORS = ("#ffffff", "#dcebf7", "#9ecae8", "#4292c6", "#14549c", "#08264f")
MAX_PAGE_WEIGHTS = 2**25
"""Most weights in one page; more would be over 90 MB of HTML, which browsers do not take well."""
COLUMNS = 4
"""Heads side by side when one layer is drawn."""
MAX_LABELS = 72
"""Most tokens named along an axis of a large map; of longer texts every second, third, ... is named."""
MAX_SMALL_LABELS = 16
"""The same of a map that is one of many."""

Choice = int | Iterable[int] | None


def plot_attention(maps: AttentionMaps, layer: Choice = None, head: Choice = None, *, title: str | None = None) -> Figure:
    """Heat maps of attention, tokens on the axes: each row attends to the columns.

    `layer` and `head` are numbers from 0, one or several, all unless given. One head is drawn large; the heads of one
    layer side by side; several layers as a grid, a row for each layer and a column for each head. All maps of a figure
    share one colour scale, from 0 to their largest weight. `figure.savefig(path)` writes it. Raises ImportError without
    matplotlib, KeyError for a layer or head that the maps don't hold, and ValueError for none at all.
    """
    layers, heads = _choose(maps.layers, layer, "layer"), _choose(maps.heads, head, "head")
    places = [(each_layer, each_head) for each_layer in layers for each_head in heads]
    heading = shown(_heading(maps) if title is None else title)
    if len(places) == 1:
        return _large(maps, *places[0], heading)
    columns = len(heads) if len(layers) > 1 else min(len(heads), COLUMNS)
    return _grid(maps, places, columns, heading)


def attention_page(maps: AttentionMaps, layer: Choice = None, head: Choice = None, *, title: str | None = None) -> str:
    """One HTML page that shows any layer and head, and the weight under the pointer. It loads nothing from anywhere.

    `layer` and `head` choose what goes into the page; weights are kept to 1/65535. Raises ValueError for more than
    2**25 weights (layers x heads x L x L) or none, and KeyError for a layer or head that the maps don't hold.
    """
    layers, heads = _choose(maps.layers, layer, "layer"), _choose(maps.heads, head, "head")
    slices = np.ix_([maps.layers.index(value) for value in layers], [maps.heads.index(value) for value in heads])
    weights: npt.NDArray[np.floating[Any]] = maps.attention[slices]
    if weights.size > MAX_PAGE_WEIGHTS:
        raise ValueError(f"{weights.size} weights are too many for a page, {MAX_PAGE_WEIGHTS} at most: choose layers")
    quantized = np.rint(weights.astype(np.float32).clip(0, 1) * 65535).astype("<u2")
    heading = _heading(maps) if title is None else title
    data = {
        "title": heading,
        "model": maps.provenance.model,
        "tokens": [token.text for token in maps.tokens],
        "layers": layers,
        "heads": heads,
        "colors": COLORS,
        "weights": base64.b64encode(quantized.tobytes()).decode("ascii"),
    }
    template = importlib.resources.files("bertscope").joinpath("attention_page.html").read_text("utf-8")
    contents = {"{{title}}": html.escape(heading), "{{data}}": _script_safe_json(data)}
    # In one pass: what is put in may itself look like a placeholder.
    return re.sub(r"{{title}}|{{data}}", lambda place: contents[place.group()], template)


def save_attention(
    maps: AttentionMaps,
    path: str | PathLike[str],
    layer: Choice = None,
    head: Choice = None,
    *,
    title: str | None = None,
) -> None:
    """Writes a figure (.png, .svg, .pdf) or an interactive page (.html), by the end of the file's name.

    What matplotlib's font lacks (Chinese, emoji) is a box in a figure; a page shows it. Raises ValueError for any other
    end, and what `plot_attention` and `attention_page` raise.
    """
    path = Path(path)
    check_format(path)
    if path.suffix.lower() == PAGE_FORMAT:
        path.write_text(attention_page(maps, layer, head, title=title), encoding="utf-8")
    else:
        figure = plot_attention(maps, layer, head, title=title)
        write(figure, path)


def check_format(path: str | PathLike[str]) -> None:
    """Raises ValueError unless `save_attention` can write such a file."""
    require_format(path, (*FIGURE_FORMATS, PAGE_FORMAT))


def _large(maps: AttentionMaps, layer: int, head: int, heading: str) -> Figure:
    length = len(maps.tokens)
    side = min(11.0, max(4.0, 0.32 * length))
    figure = new_figure(side + 2.0, side + 1.6)
    axes = figure.subplots()
    weights = maps.head(layer, head)
    image = _draw(axes, maps, weights, weights.max(), font=min(10.0, max(6.0, 260 / length)), labels=MAX_LABELS)
    axes.set_xlabel("attended to", color=INK)
    axes.set_ylabel("from", color=INK)
    set_title(figure, f"{heading}\nlayer {layer}, head {head}")
    add_colorbar(figure, image, axes, "attention")
    return figure


def _grid(maps: AttentionMaps, places: list[tuple[int, int]], columns: int, heading: str) -> Figure:
    rows = math.ceil(len(places) / columns)
    length = len(maps.tokens)
    side = min(3.0, max(1.7, 0.16 * min(length, MAX_SMALL_LABELS)))
    figure = new_figure(columns * side + 1.8, rows * (side + 0.25) + 1.4)
    grid = figure.subplots(rows, columns, squeeze=False)
    largest = max(maps.head(*place).max() for place in places)
    image = None
    for index, axes in enumerate(grid.flat):
        if index >= len(places):
            axes.set_visible(False)
            continue
        image = _draw(axes, maps, maps.head(*places[index]), largest, font=6, labels=MAX_SMALL_LABELS)
        axes.set_title(f"layer {places[index][0]}, head {places[index][1]}", fontsize=8, color=INK, pad=4)
        # The maps of a row share its tokens, those of a column theirs: names on the outside leave room for the maps.
        axes.tick_params(labelleft=index % columns == 0, labelbottom=index + columns >= len(places), labeltop=False)
    set_title(figure, heading)
    add_colorbar(figure, image, grid, "attention")
    return figure


def _draw(axes: Axes, maps: AttentionMaps, weights: npt.NDArray[Any], largest: float, font: float, labels: int) -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    colors = LinearSegmentedColormap.from_list("bertscope", COLORS)
    image = axes.imshow(weights.astype(np.float32), cmap=colors, vmin=0, vmax=float(largest), interpolation="nearest")
    step = math.ceil(len(maps.tokens) / labels)
    ticks = range(0, len(maps.tokens), step)
    names = [shown(maps.tokens[index].text) for index in ticks]
    axes.set_xticks(ticks, names, rotation=90, fontsize=font, color=INK)
    axes.set_yticks(ticks, names, fontsize=font, color=INK)
    axes.tick_params(length=0, pad=2)
    outline(axes)
    return image


def _choose(held: Sequence[int], choice: Choice, what: str) -> list[int]:
    if choice is None:
        return list(held)
    chosen = [int(value) for value in choice] if isinstance(choice, Iterable) else [int(choice)]
    if not chosen:
        raise ValueError(f"{what} is empty; leave it out to mean all")
    for value in chosen:
        if value not in held:
            raise KeyError(f"{what} {value} is not among those of the maps: {list(held)}")
    return chosen


def _heading(maps: AttentionMaps) -> str:
    text = maps.text if maps.text_pair is None else f"{maps.text} / {maps.text_pair}"
    return text if len(text) <= 100 else f"{text[:99]}…"


def _script_safe_json(data: object) -> str:
    """JSON that a script element can hold whatever the text: no character in it can end the element."""
    return json.dumps(data).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
