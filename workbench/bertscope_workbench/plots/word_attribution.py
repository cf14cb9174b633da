"""Draws the words of a text in colour, each with how much it adds to a score, and which two act together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Unpack

import numpy as np
from bertscope import WordAttribution
from bertscope.values.score_targets import described

from bertscope_workbench.plots.attribution import AGAINST, FOR
from bertscope_workbench.plots.figures import Axes, Figure, ThemedFigure, heat_map, name_cells, new_figure, saving
from bertscope_workbench.plots.look import Look, asked_size, asked_title, looking, points
from bertscope_workbench.plots.theme import TITLE_SIZE, Theme, boxes_unmentioned, fitted, shortened, shown, theme_of
from bertscope_workbench.plots.words_html import shown_parts, signed, sum_line

__all__ = ["plot_word_attribution", "save_word_attribution"]

WIDTH, MARGIN, GAP = 9.0, 0.25, 0.1
LINE, INTERVAL, TITLE_LINE = 0.5, 0.12, 0.2
"""Inches: the figure's width, its margins, the gap between words; the height of a line of words, of their intervals, and of a
line of the title."""
WORD_SIZE, NUMBER_SIZE = 11, 8
OPACITY = 0.7
"""How much of the page the largest value hides: words in the page's own ink are readable on all of the scale."""
MAX_LINES = 40
"""The most lines of words in a figure; what follows is not drawn."""
LEAST_NUMBERED = 0.04
"""Inches of a cell, for each point of the number in it."""
MAX_WORD = 30
CELL, NAMES = 0.52, 1.2
"""Inches: of a cell of interactions, and of the names of its words."""
STRONG = 0.7
"""From this share of the largest interaction on, the ink in a cell is that of the page."""


class Placed(NamedTuple):
    """A word in its place, inches from the left, in a line."""

    word: str
    place: int | None
    """Index of its value."""
    left: float
    width: float
    line: int


@looking
def plot_word_attribution(found: WordAttribution, **look: Unpack[Look]) -> Figure:
    """Draws the text with each word on a ground in colour, blue where it raises the number, orange where it lowers it, with its
    signed value below, and the half-width of its 95 % interval if it has one; `dark` on a dark page.

    Interactions are a matrix below it: blue where two words do more together than each alone. Lines after the 40th are left
    out, and the title says so.
    """
    theme = theme_of(look)
    count, scale = len(found.units), points(10) / 10
    width = max(WIDTH, CELL * count + 2 * NAMES) if found.interactions is not None else WIDTH
    width, limit = asked_size(width, math.inf)
    placed, lines = _placed(found, width)
    drawn = min(lines, MAX_LINES)
    each = scale * (LINE + (0 if found.interval() is None else INTERVAL))
    words = each * drawn + MARGIN
    cell = min(CELL, (width - 2 * NAMES * scale) / max(count, 1))
    matrix = 0.0 if found.interactions is None else cell * count + NAMES * scale
    rest = f"; {lines - drawn} more lines are not shown" if lines > drawn else ""
    how = f"{found.method.replace('_', ' ')}, absent words: {found.absent}; {found.provenance.model}{rest}"
    heading = asked_title(f"{described(found.target, found.label)}\n{sum_line(found)}\n{how}")
    top = scale * TITLE_LINE * (1 + len(fitted(heading, width, points(TITLE_SIZE)).split("\n"))) if heading else 0.0
    height = min(top + words + matrix, limit)
    figure = new_figure(width, height, theme, solved=False)
    figure.set_heading(heading, y=1 - 0.1 / height)
    axes = figure.add_axes((0, matrix / height, 1, words / height))
    axes.set(xlim=(0, width), ylim=(words, 0))
    axes.axis("off")
    _draw_words(axes, found, [word for word in placed if word.line < drawn], each, theme)
    if found.interactions is not None:
        side, names = cell * count, NAMES * scale
        box = (names / width, names / height, side / width, side / height)
        _draw_interactions(figure, figure.add_axes(box), found, theme)
    return figure


save_word_attribution = saving(plot_word_attribution)


def _placed(found: WordAttribution, across: float) -> tuple[list[Placed], int]:
    """Returns the words, wrapped to the width of a figure, inches, and the number of lines."""
    ends = found.interval()
    placed, left, line = list[Placed](), MARGIN, 0
    parts = [(shortened(word, MAX_WORD), index) for word, index in shown_parts(found)]
    numbers = ["" if index is None else signed(found, float(found.values[index])) for _, index in parts]
    widths = zip(_widths([word for word, _ in parts], points(WORD_SIZE)), _widths(numbers, points(NUMBER_SIZE)), strict=True)
    for (word, index), both in zip(parts, widths, strict=True):
        width = max(*both, 0.0 if ends is None or index is None else 0.4) + GAP
        if left + width > across - MARGIN and left > MARGIN:
            left, line = MARGIN, line + 1
        placed.append(Placed(word, index, left, width, line))
        left += width + GAP / 2
    return placed, line + 1


def _widths(texts: Sequence[str], size: float) -> list[float]:
    """Returns the widths of texts in inches. Characters that matplotlib's font lacks are as wide as they are high."""
    from matplotlib.figure import Figure

    figure = Figure()
    found = []
    with boxes_unmentioned():
        for text in texts:
            width = figure.text(0, 0, shown(text), fontsize=size).get_window_extent().width / figure.dpi if text else 0.0
            found.append(width if text.isascii() else max(width, sum(ord(letter) > 0x2E7F for letter in text) * size / 72))
    return found


def _draw_words(axes: Axes, found: WordAttribution, placed: Sequence[Placed], height: float, theme: Theme) -> None:
    from matplotlib.patches import FancyBboxPatch

    most = float(np.abs(found.values).max(initial=0)) or 1.0
    ends, scale = found.interval(), points(10) / 10
    centred: dict[str, Any] = {"ha": "center", "va": "center", "color": theme.ink}
    for word, index, left, width, line in placed:
        top, middle = height * line, left + width / 2
        axes.text(
            middle, top + 0.13 * scale, shown(word), ha="center", va="center", fontsize=points(WORD_SIZE), color=theme.ink
        )
        if index is None:
            continue
        value = float(found.values[index])
        style, colour = "round,pad=0,rounding_size=0.04", FOR if value > 0 else AGAINST
        ground = FancyBboxPatch(
            (left, top), width, 0.26 * scale, style, color=colour, alpha=OPACITY * abs(value) / most, linewidth=0
        )
        ground.set_zorder(0)
        axes.add_patch(ground)
        axes.text(middle, top + 0.35 * scale, signed(found, value), fontsize=points(NUMBER_SIZE), **centred)
        if ends is not None:
            reach = signed(found, (ends[index].high - ends[index].low) / 2).lstrip("+")
            axes.text(middle, top + 0.47 * scale, f"±{reach}", fontsize=points(NUMBER_SIZE - 1.5), alpha=0.75, **centred)


def _draw_interactions(figure: ThemedFigure, axes: Axes, found: WordAttribution, theme: Theme) -> None:
    values = np.asarray(found.interactions)
    most = float(np.abs(values).max(initial=0)) or 1.0
    image = heat_map(axes, values, (AGAINST, theme.none_to_much[0], FOR), (-most, most), origin="upper")
    names = [shortened(word, MAX_WORD // 2) for word in found.words]
    name_cells(axes.xaxis, names, rotation=45, ha="right")
    name_cells(axes.yaxis, names)
    numbered = axes.get_position().width * figure.inches[0] / max(len(values), 1) >= LEAST_NUMBERED * points(7)
    for (row, column), value in np.ndenumerate(values):
        if row != column and numbered:
            ink = theme.page if abs(value) >= STRONG * most else theme.ink
            axes.text(column, row, f"{value:+.2f}", ha="center", va="center", fontsize=points(7), color=ink)
    figure.add_colorbar(image, axes, "interaction", cax=figure.add_axes(_beside(axes)))


def _beside(axes: Axes) -> tuple[float, float, float, float]:
    """Returns the place of a colour bar to the right of axes."""
    box = axes.get_position()
    return box.x1 + 0.015, box.y0, 0.014, box.height
