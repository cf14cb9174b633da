"""Draws the predictions of the masked-LM head at every layer."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np
from bertscope import LensText
from bertscope.errors import invalid_argument

from bertscope_workbench.plots.figures import Figure, heat_map, letters_in_cell, name_cells, new_figure, saving, write_in_cell
from bertscope_workbench.plots.look import Look, looking
from bertscope_workbench.plots.theme import shortened, shown, theme_of

__all__ = ["plot_lens", "save_lens"]

CELL_WIDTH, CELL_HEIGHT = 0.82, 0.27
MARGINS = 2.1, 1.3
"""Inches: a cell, and the width and height of all that is around the cells."""
MIN_WIDTH = 4.6
MAX_POSITIONS = 60
"""The most positions in a figure; those that follow are not drawn."""
MAX_WORD = 10


@looking
def plot_lens(found: LensText, **look: Unpack[Look]) -> Figure:
    """Draws a heat map of positions by layers, the last layer on top: in each cell the likeliest entry, and its probability as
    the colour; `dark` on a dark page.

    Positions after the 60th are left out, and the title says so. Raises InvalidArgument without a position.
    """
    if not found.positions:
        raise invalid_argument("found", "has no position to draw")
    theme = theme_of(look)
    positions = found.positions[:MAX_POSITIONS]
    order = sorted(range(len(found.layers)), key=lambda number: found.layers[number])
    width = max(MIN_WIDTH, MARGINS[0] + CELL_WIDTH * len(positions))
    figure = new_figure(width, MARGINS[1] + CELL_HEIGHT * len(order), theme, rows=True)
    axes = figure.subplots()
    letters = min(MAX_WORD, max(1, letters_in_cell(figure, len(positions))))
    best = [[position.layers[number].top[0] for position in positions] for number in order]
    values = np.array([[entry.probability for entry in row] for row in best])
    image = heat_map(axes, values, theme.none_to_much, aspect="auto")
    for y, row in enumerate(best):
        for x, entry in enumerate(row):
            write_in_cell(axes, x, y, shown(shortened(entry.token, letters)), entry.probability, theme)
    names = [shortened(position.token.text, MAX_WORD) for position in positions]
    turned: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    name_cells(axes.xaxis, names, **(turned if letters < max(map(len, names)) else {}))
    name_cells(axes.yaxis, [found.layers[number] for number in order])
    axes.set_ylabel("layer (0: the embeddings)")
    figure.add_colorbar(image, axes, "probability")
    left = len(found.positions) - len(positions)
    rest = f"; {left} more positions are not shown" if left else ""
    text = found.text if isinstance(found.text, str) else " / ".join(found.text)
    figure.set_heading(f"the likeliest entry at each layer\n{text}\n{found.provenance.model}{rest}")
    return figure


save_lens = saving(plot_lens)
