"""Draws the linked words of a sentence and its translation."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np

from bertscope_workbench.analyses.alignment import GoldAlignment, WordAlignment
from bertscope_workbench.plots.figures import (
    Axes,
    Figure,
    heat_map,
    letters_in_cell,
    name_cells,
    new_figure,
    saving,
    write_in_cell,
)
from bertscope_workbench.plots.look import Look, looking
from bertscope_workbench.plots.theme import Theme, shortened, theme_of

__all__ = ["plot_alignment", "save_alignment"]

CELL = 0.36
MARGINS = 1.9, 1.35
"""Inches: a cell, and the width and height of all that is around the cells and words."""
CHARACTER = 0.085
"""Inches: about the length of a word's character."""
MIN_SIDE = 2.2
MAX_WORD = 16


@looking
def plot_alignment(found: WordAlignment, gold: GoldAlignment | None = None, **look: Unpack[Look]) -> Figure:
    """Draws a row for each word of the source and a column for each of the target, their links with the cosine; `dark` on a
    dark page.

    With `gold`, a frame is around each link that people made: a whole one if it is sure, a dashed one if it is possible.
    """
    theme = theme_of(look)
    rows, columns = len(found.source_words), len(found.target_words)
    cosines = np.full((rows, columns), np.nan)
    for link in found.links:
        cosines[link.source, link.target] = link.similarity
    width, height = (max(MIN_SIDE, CELL * count) for count in (columns, rows))
    names = [[shortened(word, MAX_WORD) for word in words] for words in (found.source_words, found.target_words)]
    beside, below = (CHARACTER * max(map(len, side)) for side in names)
    figure = new_figure(MARGINS[0] + width + beside, MARGINS[1] + height + below, theme)
    axes = figure.subplots()
    image = heat_map(axes, cosines, theme.none_to_much, origin="upper")
    numbered = letters_in_cell(figure, columns) >= len(".00")
    for link in found.links if numbered else ():
        value = f"{link.similarity:.2f}".replace("0.", ".", 1)
        write_in_cell(axes, link.target, link.source, value, link.similarity, theme)
    if gold is not None:
        _frames(axes, gold, (rows, columns), theme)
    name_cells(axes.xaxis, names[1], rotation=90)
    name_cells(axes.yaxis, names[0])
    axes.set_xticks(np.arange(columns + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(rows + 1) - 0.5, minor=True)
    axes.grid(which="minor")
    axes.set_ylabel("source")
    axes.set_xlabel("target")
    figure.add_colorbar(image, axes, "cosine")
    made = "; framed: by people" if gold is not None else ""
    figure.set_heading(f"linked words ({found.method}){made}\n{found.provenance.model}, layer {found.layer}")
    return figure


save_alignment = saving(plot_alignment)


def _frames(axes: Axes, gold: GoldAlignment, shape: tuple[int, int], theme: Theme) -> None:
    from matplotlib.patches import Rectangle

    for source, target in sorted(gold.possible):
        if source < shape[0] and target < shape[1]:
            style: Any = "-" if (source, target) in gold.sure else (0, (2, 1.5))
            frame = Rectangle((target - 0.44, source - 0.44), 0.88, 0.88, fill=False, edgecolor=theme.lines[1], linestyle=style)
            axes.add_patch(frame).set_linewidth(1.8)
