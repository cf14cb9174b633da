"""Draws the linked words of a sentence and its translation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from bertscope import GoldAlignment, WordAlignment

from bertscope_workbench.plots.figures import (
    DARK,
    LIGHT,
    Theme,
    add_colorbar,
    color_scale,
    new_figure,
    outline,
    saving,
    set_title,
    shown,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_alignment", "save_alignment"]

CELL = 0.36
MARGINS = 1.9, 1.35
"""Inches: a cell, and the width and height of all that is around the cells and words."""
CHARACTER = 0.085
"""Inches: about the length of a word's character."""
MIN_SIDE = 2.2
MAX_WORD = 16
BRIGHT = 0.5
"""From this cosine on, the ink of a number is that of the page."""


def plot_alignment(
    found: WordAlignment, gold: GoldAlignment | None = None, *, dark: bool = False, title: str | None = None
) -> Figure:
    """Draws a row for each word of the source and a column for each of the target, their links with the cosine; `dark` on a
    dark page.

    With `gold`, a frame is around each link that people made: a whole one if it is sure, a dashed one if it is possible.
    """
    theme = DARK if dark else LIGHT
    rows, columns = len(found.source_words), len(found.target_words)
    cosines = np.full((rows, columns), np.nan)
    for link in found.links:
        cosines[link.source, link.target] = link.similarity
    width, height = (max(MIN_SIDE, CELL * count) for count in (columns, rows))
    names = [[_name(word) for word in words] for words in (found.source_words, found.target_words)]
    beside, below = (CHARACTER * max(map(len, side)) for side in names)
    figure = new_figure(MARGINS[0] + width + beside, MARGINS[1] + height + below, theme=theme)
    axes = figure.subplots()
    axes.set_facecolor(theme.page)
    image = axes.imshow(cosines, cmap=color_scale(theme), vmin=0, vmax=1, interpolation="nearest")
    for link in found.links:
        ink = theme.page if link.similarity >= BRIGHT else theme.ink
        value = f"{link.similarity:.2f}".replace("0.", ".", 1)
        axes.text(link.target, link.source, value, ha="center", va="center", fontsize=7, color=ink)
    if gold is not None:
        _frames(axes, gold, (rows, columns), theme)
    axes.set_xticks(range(columns), names[1], rotation=90)
    axes.set_yticks(range(rows), names[0])
    axes.set_xticks(np.arange(columns + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(rows + 1) - 0.5, minor=True)
    axes.grid(which="minor", color=theme.faint, linewidth=0.5)
    axes.tick_params(which="both", length=0, labelsize=9, labelcolor=theme.ink)
    axes.set_ylabel("source", color=theme.ink, fontsize=8)
    axes.set_xlabel("target", color=theme.ink, fontsize=8)
    outline(axes, theme)
    add_colorbar(figure, image, axes, "cosine", theme=theme)
    made = "; framed: by people" if gold is not None else ""
    default = f"linked words ({found.method}){made}\n{found.provenance.model}, layer {found.layer}"
    set_title(figure, shown(default if title is None else title), theme=theme)
    return figure


save_alignment = saving(plot_alignment)


def _frames(axes: Axes, gold: GoldAlignment, shape: tuple[int, int], theme: Theme) -> None:
    from matplotlib.patches import Rectangle

    for source, target in sorted(gold.possible):
        if source < shape[0] and target < shape[1]:
            style: Any = "-" if (source, target) in gold.sure else (0, (2, 1.5))
            frame = Rectangle((target - 0.44, source - 0.44), 0.88, 0.88, fill=False, edgecolor=theme.lines[1], linestyle=style)
            axes.add_patch(frame).set_linewidth(1.8)


def _name(word: str) -> str:
    return shown(word if len(word) <= MAX_WORD else f"{word[: MAX_WORD - 1]}…")
