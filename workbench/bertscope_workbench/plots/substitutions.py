"""Draws the scores of every substitution of a protein as a heat map."""

from __future__ import annotations

from typing import Unpack

import numpy as np

from bertscope_workbench.analyses.substitutions import Substitutions
from bertscope_workbench.plots.figures import Figure, name_cells, new_figure, saving
from bertscope_workbench.plots.look import Look, looking, points
from bertscope_workbench.plots.theme import theme_of

__all__ = ["plot_substitutions", "save_substitutions"]

RESIDUES_IN_ROW = 60
MAX_ROWS = 12
"""The most rows of residues in a figure; what follows is not drawn."""
CELL, LABELS, HEAD = 0.19, 1.7, 1.0
"""Inches: the side of a cell, the room beside the maps, and that of the title."""
TICK = 5


@looking
def plot_substitutions(found: Substitutions, **look: Unpack[Look]) -> Figure:
    """Draws log-odds, a row for each letter and a column for each residue, 60 residues side by side: blue where the model
    finds the new residue likelier than the one that is there, red where less likely; a dot marks the one that is there.

    The scale is symmetric around 0, and its end is the largest size of all. Of more than 720 residues the first 720 are drawn,
    and the title says so.
    """
    theme = theme_of(look)
    length, count = len(found.sequence), len(found.letters)
    starts = list(range(0, length, RESIDUES_IN_ROW))[:MAX_ROWS]
    width = min(length, RESIDUES_IN_ROW)
    figure = new_figure(max(4.6, LABELS + CELL * width), HEAD + len(starts) * (0.55 + CELL * count), theme)
    rows = figure.subplots(len(starts), squeeze=False)[:, 0]
    end = float(np.abs(found.log_odds).max()) or 1.0
    image = None
    for axes, start in zip(rows, starts, strict=True):
        part = found.log_odds[:, start : start + RESIDUES_IN_ROW]
        image = axes.imshow(part, "RdBu", vmin=-end, vmax=end, interpolation="nearest")
        there = found.sequence[start : start + RESIDUES_IN_ROW]
        marks = [(place, found.letters.index(letter)) for place, letter in enumerate(there) if letter in found.letters]
        axes.plot([place for place, _ in marks], [row for _, row in marks], ".", color=theme.ink, markersize=2.5)
        axes.set_xlim(-0.5, width - 0.5)
        name_cells(axes.yaxis, found.letters, fontsize=points(6))
        places = range(0, len(there), TICK)
        axes.set_xticks(places, [f"{there[place]}{start + place + 1}" for place in places], fontsize=points(6))
        axes.tick_params(pad=2)
    figure.add_colorbar(image, list(rows), "log-odds against the residue that is there")
    left = length - starts[-1] - RESIDUES_IN_ROW
    rest = f"; {left} more residues are not shown" if left > 0 else ""
    figure.set_heading(f"Every substitution of {length} residues, {found.provenance.model}{rest}")
    return figure


save_substitutions = saving(plot_substitutions)
