"""Draws how alike the states of each two layers are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from bertscope import RepresentationComparison

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

__all__ = ["plot_representations", "save_representations"]

CELL = 0.42
MARGINS = 2.2, 1.5
"""Inches: a cell, and the width and height of all that is around the cells."""
MIN_SIDE = 2.4
MAX_NUMBERED = 26
"""More layers than these have no number in each cell."""
BRIGHT = 0.5
"""From this value on, the ink of a number is that of the page."""


def plot_representations(found: RepresentationComparison, *, dark: bool = False, title: str | None = None) -> Figure:
    """Draws linear CKA of each two layers as a heat map, 0 to 1, a row for each layer of the first model, the last one on top
    (Kornblith et al. 2019, figure 3); `dark` on a dark page. Cells without a value are empty."""
    theme = DARK if dark else LIGHT
    values = found.cka()
    width = MARGINS[0] + max(MIN_SIDE, CELL * values.shape[1])
    figure = new_figure(width, MARGINS[1] + max(MIN_SIDE, CELL * values.shape[0]), theme=theme)
    axes = figure.subplots()
    axes.set_facecolor(theme.page)
    image = axes.imshow(values, cmap=color_scale(theme), vmin=0, vmax=1, interpolation="nearest", origin="lower")
    if max(values.shape) <= MAX_NUMBERED:
        for (row, column), value in np.ndenumerate(values):
            if np.isfinite(value):
                ink = theme.page if value >= BRIGHT else theme.ink
                axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=7, color=ink)
    axes.set_xticks(range(len(found.other_layers)), [str(layer) for layer in found.other_layers])
    axes.set_yticks(range(len(found.layers)), [str(layer) for layer in found.layers])
    first, second = _names(found)
    axes.set_xlabel(shown(second), color=theme.ink, fontsize=8)
    axes.set_ylabel(shown(first), color=theme.ink, fontsize=8)
    axes.tick_params(length=0, labelsize=8, labelcolor=theme.ink)
    outline(axes, theme)
    add_colorbar(figure, image, axes, "linear CKA", theme=theme)
    default = f"how alike the states of two layers are\n{found.models}, {found.compared_texts} texts"
    set_title(figure, shown(default if title is None else title), theme=theme)
    return figure


save_representations = saving(plot_representations)


def _names(found: RepresentationComparison) -> tuple[str, str]:
    """Returns the names of the vertical and the horizontal axis."""
    if not found.interventions and found.provenance.model == found.other_provenance.model:
        return "layer (0: embeddings)", "layer (0: embeddings)"
    changed = ", changed" if found.interventions else ""
    return f"layer of {found.provenance.model}", f"layer of {found.other_provenance.model}{changed}"
