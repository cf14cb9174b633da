"""Draws how alike the states of each two layers are."""

from __future__ import annotations

from typing import Unpack

import numpy as np
from bertscope import RepresentationComparison

from bertscope_workbench.plots.figures import Figure, heat_map, letters_in_cell, name_cells, new_figure, saving, write_in_cell
from bertscope_workbench.plots.look import Look, looking
from bertscope_workbench.plots.theme import shown, theme_of

__all__ = ["plot_representations", "save_representations"]

CELL = 0.42
MARGINS = 2.2, 1.5
"""Inches: a cell, and the width and height of all that is around the cells."""
MIN_SIDE = 2.4
MAX_NUMBERED = 26
"""More layers than these have no number in each cell."""


@looking
def plot_representations(found: RepresentationComparison, **look: Unpack[Look]) -> Figure:
    """Draws linear CKA of each two layers as a heat map, 0 to 1, a row for each layer of the first model, the last one on top
    (Kornblith et al. 2019, figure 3); `dark` on a dark page. Cells without a value are empty."""
    theme = theme_of(look)
    values = found.cka()
    width = MARGINS[0] + max(MIN_SIDE, CELL * values.shape[1])
    figure = new_figure(width, MARGINS[1] + max(MIN_SIDE, CELL * values.shape[0]), theme)
    axes = figure.subplots()
    image = heat_map(axes, values, theme.none_to_much)
    if max(values.shape) <= MAX_NUMBERED and letters_in_cell(figure, values.shape[1]) >= len("0.00"):
        for (row, column), value in np.ndenumerate(values):
            if np.isfinite(value):
                write_in_cell(axes, column, row, f"{value:.2f}", value, theme)
    name_cells(axes.xaxis, found.other_layers)
    name_cells(axes.yaxis, found.layers)
    first, second = _names(found)
    axes.set_xlabel(shown(second))
    axes.set_ylabel(shown(first))
    figure.add_colorbar(image, axes, "linear CKA")
    figure.set_heading(f"how alike the states of two layers are\n{found.models}, {found.compared_texts} texts")
    return figure


save_representations = saving(plot_representations)


def _names(found: RepresentationComparison) -> tuple[str, str]:
    """Returns the names of the vertical and the horizontal axis."""
    if not found.interventions and found.provenance.model == found.other_provenance.model:
        return "layer (0: embeddings)", "layer (0: embeddings)"
    changed = ", changed" if found.interventions else ""
    return f"layer of {found.provenance.model}", f"layer of {found.other_provenance.model}{changed}"
