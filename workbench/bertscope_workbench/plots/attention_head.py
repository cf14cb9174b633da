"""Draws the map of one head: a heat map, and beside it lines between two columns of tokens."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from bertscope import AttentionMaps

from bertscope_workbench.plots.attention_page import heading, name_of, place_of
from bertscope_workbench.plots.figures import Axes, ThemedFigure, heat_map, name_cells, new_figure
from bertscope_workbench.plots.look import asked_size, asked_title, points
from bertscope_workbench.plots.theme import TITLE_SIZE, Theme, fitted, shortened, shown

if TYPE_CHECKING:
    from matplotlib.image import AxesImage

Weights = npt.NDArray[np.float32]

MAX_LABELS = 72
"""The most tokens named along an axis; of longer texts every second, third, ... is named, and they have no lines."""
MAX_PIXELS = 1200
"""The most squares along a side; for longer texts a square shows the largest weight of several tokens."""
MAX_NAME = 20
"""The most characters of a token's name."""
INCHES_PER_TOKEN, MIN_SIDE, MAX_SIDE = 0.25, 2.6, 10.0
POINTS_PER_INCH = 72
END = 9
"""Points, of what rows and columns are."""
CHARACTER = 0.62
"""Approximate width of a character, of the height of its letters."""
LEAST_SHARE = 0.02
"""The share of the largest weight below which a line can't be seen, so that there is none."""
NARROW_LINES, LEAST_SIDE = 1.2, 0.8
"""Inches, in a figure that shall be narrower: the width of the lines, and the least side of a map."""
LEAST_TOKEN = 1.15
"""The height of a token beside lines, of that of its letters."""
FINEST, THICKEST = 0.3, 3.2
"""Points."""


def draw_head(maps: AttentionMaps, layer: int, head: int, theme: Theme, largest: float | None = None) -> ThemedFigure:
    """Draws a heat map, rows attend to columns, and a line from each token to each token: the larger the weight, the wider and
    the more opaque. Texts of more than 72 tokens have no lines."""
    weights = maps.head(layer, head).astype(np.float32)
    finite = weights[np.isfinite(weights)]
    largest = largest or float(finite.max(initial=0.0)) or 1.0
    length = len(maps.tokens)
    lines, scale = length <= MAX_LABELS, points(10) / 10
    side = min(MAX_SIDE, max(MIN_SIDE, INCHES_PER_TOKEN * length))
    font = points(min(9.0, max(5.5, 0.7 * POINTS_PER_INCH * side / min(length, MAX_LABELS))))
    names = [shortened(token.text, MAX_NAME) for token in maps.tokens]
    margin = 0.15 + CHARACTER * font / POINTS_PER_INCH * max(map(len, names))
    beside = max(margin, 0.15 + CHARACTER * points(END) / POINTS_PER_INCH * max(map(len, ends(maps))))
    across = max(1.9, 0.45 * side)
    around, drawn_lines = 0.4 * scale + margin + 0.39 + 0.75 * scale, 2 * beside + across
    width = max(around + side + (drawn_lines if lines else 0), 4.6)
    asked = asked_size(width, math.inf)
    if asked[0] < width:
        # Narrower lines, or none, so that the tokens of the map can still be read.
        across = min(across, NARROW_LINES)
        lines = lines and asked[0] - around - 2 * beside - across >= LEAST_TOKEN * font / POINTS_PER_INCH * length
        side = max(LEAST_SIDE, min(side, asked[0] - around - (2 * beside + across if lines else 0)))
    width = asked[0]
    places = np.cumsum([0.4 * scale + margin, side, 0.15, 0.14, 0.75 * scale, *((beside, across, beside) if lines else ())])
    title = asked_title(f"{heading(maps)}\n{place_of(maps, layer, head)}, {maps.provenance.model}")
    top = 0.12 + 0.2 * scale * (1.9 + fitted(title, width, points(TITLE_SIZE)).count("\n")) if title else 0.12
    bottom = 0.4 * scale + margin
    side = max(LEAST_SIDE, min(side, asked[1] - top - bottom))
    height = min(top + side + bottom, asked[1])
    # Placed by hand: rows of the heat map and tokens beside the lines are level.
    figure = new_figure(width, height, theme, solved=False)

    def axes_at(left: float, across: float, tall: float) -> Axes:
        return figure.add_axes((left / width, (bottom + (side - tall) / 2) / height, across / width, tall / height))

    axes = axes_at(places[0], side, side)
    image = token_map(axes, weights, largest, names, theme, labels=MAX_LABELS, pixels=MAX_PIXELS, fontsize=font)
    row, column = ends(maps)
    axes.set_ylabel(row)
    axes.set_xlabel(column)
    if maps.text_pair is not None:
        border = sum(not token.segment for token in maps.tokens) - 0.5
        axes.axhline(border, color=theme.ink, linewidth=0.5, alpha=0.5)
        axes.axvline(border, color=theme.ink, linewidth=0.5, alpha=0.5)
    tall = min(side, 4.0)
    figure.add_colorbar(image, None, name_of(maps), cax=axes_at(places[2], 0.14, tall))
    if lines:
        _lines(axes_at(places[5], across, side), maps, weights / largest, names, font, theme)
    figure.set_heading(title, y=1 - 0.12 / height)
    return figure


def pooled(weights: npt.NDArray[Any], pixels: int) -> Weights:
    """Returns the largest weight of each square of a map [L, L], at most `pixels` along a side: thin diagonals stay visible."""
    step = max(1, math.ceil(len(weights) / pixels))
    weights = weights.astype(np.float32)
    if step == 1:
        return weights
    places = np.arange(0, len(weights), step)
    found: Weights = np.maximum.reduceat(np.maximum.reduceat(weights, places, axis=0), places, axis=1)
    return found


def ends(maps: AttentionMaps) -> tuple[str, str]:
    """Returns the names of a map's rows and columns."""
    return ("from", "attended to") if maps.quantity == "weights" else ("at", "contribution of")


def token_map(
    axes: Axes,
    weights: npt.NDArray[Any],
    largest: float,
    names: list[str],
    theme: Theme,
    *,
    labels: int,
    pixels: int,
    named: tuple[bool, bool] = (True, True),
    **text: Any,
) -> AxesImage:
    """Draws a map [L, L], rows attend to columns, of at most so many `pixels` along a side, and names at most so many tokens;
    `named` says whether below and at the left, and `text` how."""
    reach = (-0.5, len(names) - 0.5, len(names) - 0.5, -0.5)
    image = heat_map(axes, pooled(weights, pixels), theme.none_to_much, (0, largest), origin="upper", extent=reach)
    # A tick takes as long to make as a map, visible or not.
    name_cells(axes.xaxis, names if named[0] else [], labels, rotation=90, **text)
    name_cells(axes.yaxis, names if named[1] else [], labels, **text)
    return image


def _lines(axes: Axes, maps: AttentionMaps, shares: Weights, names: list[str], font: float, theme: Theme) -> None:
    """`shares`: [L, L], of the largest weight."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgb

    shares = np.nan_to_num(shares, nan=0.0, posinf=1.0).clip(0, 1)
    starts, stops = np.nonzero(shares >= LEAST_SHARE)
    order = np.argsort(shares[starts, stops], kind="stable")  # The largest ones are drawn last, above the others.
    starts, stops = starts[order], stops[order]
    seen = shares[starts, stops]
    inks = np.array([to_rgb(line) for line in theme.lines])  # The second one is that of the second text of a pair.
    segments = np.array([token.segment if maps.text_pair is not None else 0 for token in maps.tokens])
    colors = np.column_stack([inks[np.minimum(segments[starts], 1)], seen])
    ties = [[(0, start), (1, stop)] for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)]
    axes.add_collection(LineCollection(ties, colors=colors, linewidths=FINEST + (THICKEST - FINEST) * seen, clip_on=False))
    axes.set_xlim(0, 1)
    axes.set_ylim(len(names) - 0.5, -0.5)
    for place, side in ((-0.03, "right"), (1.03, "left")):
        for index, name in enumerate(names):
            axes.text(place, index, shown(name), ha=side, va="center", fontsize=font, color=theme.ink)
    for place, name, side in zip((-0.03, 1.03), ends(maps), ("right", "left"), strict=True):
        axes.annotate(
            name, (place, 0), (0, -6), xycoords="axes fraction", textcoords="offset points",
            ha=side, va="top", fontsize=points(END), color=theme.ink,
        )  # fmt: skip
    axes.set_axis_off()
