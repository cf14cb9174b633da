"""Draws the predictions of the masked-LM head at every layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from bertscope import LensText
from bertscope.errors import invalid_argument

from bertscope_workbench.plots.figures import (
    DARK,
    LIGHT,
    add_colorbar,
    color_scale,
    new_figure,
    outline,
    saving,
    set_title,
    shown,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_lens", "save_lens"]

CELL_WIDTH, CELL_HEIGHT = 0.82, 0.27
MARGINS = 2.1, 1.3
"""Inches: a cell, and the width and height of all that is around the cells."""
MIN_WIDTH = 4.6
MAX_POSITIONS = 60
"""The most positions in a figure; those that follow are not drawn."""
MAX_WORD = 10
BRIGHT = 0.5
"""From this probability on, the ink of a word is that of the page."""


def plot_lens(found: LensText, *, dark: bool = False, title: str | None = None) -> Figure:
    """Draws a heat map of positions by layers, the last layer on top: in each cell the likeliest entry, and its probability as
    the colour; `dark` on a dark page.

    Positions after the 60th are left out, and the title says so. Raises InvalidArgument without a position.
    """
    if not found.positions:
        raise invalid_argument("found", "has no position to draw")
    theme = DARK if dark else LIGHT
    positions = found.positions[:MAX_POSITIONS]
    order = sorted(range(len(found.layers)), key=lambda number: found.layers[number])
    width = max(MIN_WIDTH, MARGINS[0] + CELL_WIDTH * len(positions))
    figure = new_figure(width, MARGINS[1] + CELL_HEIGHT * len(order), theme=theme)
    axes = figure.subplots()
    best = [[position.layers[number].top[0] for position in positions] for number in order]
    values = np.array([[entry.probability for entry in row] for row in best])
    scale = color_scale(theme)
    image = axes.imshow(values, cmap=scale, vmin=0, vmax=1, interpolation="nearest", aspect="auto", origin="lower")
    for y, row in enumerate(best):
        for x, entry in enumerate(row):
            color = theme.page if entry.probability >= BRIGHT else theme.ink
            axes.text(x, y, shown(_cut(entry.token)), ha="center", va="center", fontsize=7.5, color=color)
    axes.set_xticks(range(len(positions)), [shown(_cut(position.token.text)) for position in positions])
    axes.set_yticks(range(len(order)), [str(found.layers[number]) for number in order])
    axes.set_ylabel("layer (0: the embeddings)", color=theme.ink, fontsize=8)
    axes.tick_params(length=0, labelsize=8, labelcolor=theme.ink)
    outline(axes, theme)
    add_colorbar(figure, image, axes, "probability", theme=theme)
    left = len(found.positions) - len(positions)
    rest = f"; {left} more positions are not shown" if left else ""
    text = found.text if isinstance(found.text, str) else " / ".join(found.text)
    default = f"the likeliest entry at each layer\n{text}\n{found.provenance.model}{rest}"
    set_title(figure, shown(default if title is None else title), theme=theme)
    return figure


save_lens = saving(plot_lens)


def _cut(word: str) -> str:
    return word if len(word) <= MAX_WORD else f"{word[: MAX_WORD - 1]}…"
