"""Draws attention maps: matplotlib figures, and an interactive page that needs only a browser.

matplotlib, the extra `plot`, is imported only when a figure is drawn; pages do without.
"""

from __future__ import annotations

import math
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bertscope.attention.maps import AttentionMaps
from bertscope.attention.page import COLORS, Choice, attention_page, choose, heading, name_of, place_of
from bertscope.plots.figures import (
    FIGURE_FORMATS,
    INK,
    TITLE_SIZE,
    add_colorbar,
    fitted,
    new_figure,
    outline,
    require_format,
    set_title,
    shown,
    write,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAGE_FORMAT = ".html"
COLUMNS = 4
"""Heads side by side when one layer is drawn."""
MAX_LABELS = 72
"""The most tokens named along an axis of a large map; of longer texts every second, third, ... is named."""
MAX_SMALL_LABELS = 16
"""The same for a map that is one of many."""
INCHES_PER_CHARACTER = 0.06
"""Approximate width of a character of a token's name beside one of many maps."""
MAX_PIXELS, MAX_SMALL_PIXELS = 1200, 240
"""The most squares along a side of a large map, and of one of many; for longer texts a square shows the largest weight of
several tokens."""


def plot_attention(maps: AttentionMaps, layer: Choice = None, head: Choice = None, *, title: str | None = None) -> Figure:
    """Draws heat maps of attention, tokens on the axes: each row attends to the columns.

    `layer` and `head` are numbers from 0, one or several, all unless given. One head is drawn large; the heads of one layer
    side by side; several layers as a grid, a row for each layer and a column for each head. All maps of a figure share one
    colour scale, from 0 to their largest weight. `figure.savefig(path)` writes it. Raises ImportError without matplotlib,
    KeyError for a layer or head that the maps don't hold, and ValueError for none at all.
    """
    layers, heads = choose(maps.layers, layer, "layer"), choose(maps.heads, head, "head")
    places = [(each_layer, each_head) for each_layer in layers for each_head in heads]
    title = shown(heading(maps) if title is None else title)
    if len(places) == 1:
        return _large(maps, *places[0], title)
    columns = len(heads) if len(layers) > 1 and maps.by_head else min(len(places), COLUMNS)
    return _grid(maps, places, columns, title)


def save_attention(
    maps: AttentionMaps,
    path: str | PathLike[str],
    layer: Choice = None,
    head: Choice = None,
    *,
    title: str | None = None,
) -> None:
    """Writes a figure (.png, .svg, .pdf) or an interactive page (.html), by the suffix of the file's name.

    A character that matplotlib's font lacks (Chinese, emoji) is a box in a figure; a page shows it. Raises ValueError for any
    other suffix, and the errors of `plot_attention` and `attention_page`.
    """
    path = Path(path)
    require_format(path, (*FIGURE_FORMATS, PAGE_FORMAT))
    if path.suffix.lower() == PAGE_FORMAT:
        path.write_text(attention_page(maps, layer, head, title=title), encoding="utf-8")
    else:
        figure = plot_attention(maps, layer, head, title=title)
        write(figure, path)


def _large(maps: AttentionMaps, layer: int, head: int, heading: str) -> Figure:
    length = len(maps.tokens)
    side = min(11.0, max(4.0, 0.32 * length))
    figure = new_figure(side + 2.0, side + 1.6)
    axes = figure.subplots()
    weights = maps.head(layer, head)
    image = _draw(axes, maps, weights, weights.max(), font=min(10.0, max(6.0, 260 / length)), labels=MAX_LABELS)
    axes.set_xlabel("attended to" if maps.quantity == "weights" else "of", color=INK)
    axes.set_ylabel("from", color=INK)
    set_title(figure, f"{heading}\n{place_of(maps, layer, head)}")
    add_colorbar(figure, image, axes, name_of(maps))
    return figure


def _grid(maps: AttentionMaps, places: list[tuple[int, int]], columns: int, heading: str) -> Figure:
    rows = math.ceil(len(places) / columns)
    length = len(maps.tokens)
    side = min(3.0, max(1.7, 0.16 * min(length, MAX_SMALL_LABELS)))
    # Placed by hand: matplotlib's layout draws all maps repeatedly, which takes most of the time.
    longest = max(len(maps.tokens[index].text) for index in range(0, length, math.ceil(length / MAX_SMALL_LABELS)))
    names = min(3.0, 0.35 + INCHES_PER_CHARACTER * longest)
    width = columns * side + names + 1.5
    top = 0.55 + 0.2 * (1 + fitted(heading, width, TITLE_SIZE).count("\n"))
    height = rows * (side + 0.25) + names + top
    figure = new_figure(width, height, solved=False)
    figure.subplots_adjust(names / width, names / height, 1 - 1.4 / width, 1 - top / height, 0.08, 0.3 / side)
    grid = figure.subplots(rows, columns, squeeze=False)
    largest = max(maps.head(*place).max() for place in places)
    image = None
    for index, axes in enumerate(grid.flat):
        if index >= len(places):
            axes.set_visible(False)
            continue
        # Maps in a row or a column share the tokens' names: names on the outside leave room for the maps.
        named = index + columns >= len(places), index % columns == 0
        image = _draw(axes, maps, maps.head(*places[index]), largest, font=6, labels=MAX_SMALL_LABELS, named=named)
        axes.set_title(place_of(maps, *places[index]), fontsize=8, color=INK, pad=4)
    set_title(figure, heading, y=1 - 0.12 / height)
    tall = min(0.6, 6 / height)
    add_colorbar(figure, image, None, name_of(maps), cax=figure.add_axes((1 - 1.1 / width, 0.5 - tall / 2, 0.14 / width, tall)))
    return figure


def pooled(weights: npt.NDArray[Any], pixels: int) -> npt.NDArray[np.float32]:
    """Returns the largest weight of each square of a map [L, L], at most `pixels` along a side: thin diagonals stay visible."""
    step = max(1, math.ceil(len(weights) / pixels))
    weights = weights.astype(np.float32)
    if step == 1:
        return weights
    places = np.arange(0, len(weights), step)
    found: npt.NDArray[np.float32] = np.maximum.reduceat(np.maximum.reduceat(weights, places, axis=0), places, axis=1)
    return found


def _draw(
    axes: Axes,
    maps: AttentionMaps,
    weights: npt.NDArray[Any],
    largest: float,
    font: float,
    labels: int,
    named: tuple[bool, bool] = (True, True),
) -> Any:
    """`named` says whether the tokens stand below and at the left."""
    from matplotlib.colors import LinearSegmentedColormap

    colors = LinearSegmentedColormap.from_list("bertscope", COLORS)
    length = len(maps.tokens)
    small = pooled(weights, MAX_PIXELS if labels == MAX_LABELS else MAX_SMALL_PIXELS)
    reach = (-0.5, length - 0.5, length - 0.5, -0.5)
    image = axes.imshow(small, cmap=colors, vmin=0, vmax=float(largest), interpolation="nearest", extent=reach)
    step = math.ceil(length / labels)
    ticks = range(0, length, step)
    names = [shown(maps.tokens[index].text) for index in ticks]
    # A tick takes as long to make as a map, visible or not.
    axes.set_xticks(*((ticks, names) if named[0] else ([], [])), rotation=90, fontsize=font, color=INK)
    axes.set_yticks(*((ticks, names) if named[1] else ([], [])), fontsize=font, color=INK)
    axes.tick_params(length=0, pad=2)
    outline(axes)
    return image
