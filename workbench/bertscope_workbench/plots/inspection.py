"""Draws an inspection: what fills the masks, and how far the attention of each head moved."""

from __future__ import annotations

from typing import Unpack

import numpy as np
from bertscope import FilledMask, Inspection, InspectionDistances
from bertscope.errors import invalid_argument

from bertscope_workbench.plots.figures import Axes, Figure, ThemedFigure, heat_map, name_cells, saving, side_by_side
from bertscope_workbench.plots.look import Look, looking, points
from bertscope_workbench.plots.theme import Theme, shortened, theme_of

__all__ = ["plot_inspection", "save_inspection"]

MAX_MASKS = 3
"""The most masks in a figure; those that follow are not drawn."""
PREDICTIONS, CELL = 3.4, 0.32
"""Inches: the width of a mask's predictions, and the side of a head's cell."""
MAX_ENTRIES = 10
MAX_WORD = 16


@looking
def plot_inspection(found: Inspection, **look: Unpack[Look]) -> Figure:
    """Draws the likeliest entries of each mask, a bar for the run's probability and a line for the untouched run's, beside the
    share of attention that each head moved elsewhere, a row for each layer, the last one on top; `dark` on a dark page.

    Of more than three masks the first three are drawn, and the title says so. Raises InvalidArgument for an inspection with
    neither predictions nor distances.
    """
    theme = theme_of(look)
    masks = found.masks[:MAX_MASKS]
    if not masks and found.distances is None:
        raise invalid_argument("found", "has neither predictions nor distances; inspect a text with a mask, or interventions")
    layers, heads = found.start.layers, found.start.heads
    grid = [] if found.distances is None else [max(3.2, 1.9 + CELL * heads)]
    widths = [PREDICTIONS] * len(masks) + grid
    figure, row = side_by_side(widths, max(3.4, 1.5 + CELL * layers), theme)
    for number, mask in enumerate(masks):
        before = found.untouched_masks[number] if found.untouched_masks else None
        _predictions(row[number], mask, before, theme)
    if found.distances is not None:
        _moved(figure, row[-1], found.distances, theme)
    text = found.start.text if found.start.text_pair is None else f"{found.start.text} / {found.start.text_pair}"
    left = len(found.masks) - len(masks)
    rest = f"; {left} more masks are not shown" if left else ""
    figure.set_heading(f"{text}\n{found.provenance.model}{rest}")
    return figure


save_inspection = saving(plot_inspection)


def _predictions(axes: Axes, mask: FilledMask, before: FilledMask | None, theme: Theme) -> None:
    entries = mask.predictions[:MAX_ENTRIES]
    places = range(len(entries))
    axes.barh(places, [100 * entry.probability for entry in entries], color=theme.lines[0], height=0.66)
    if before is not None:
        was = {entry.piece_ids: entry.probability for entry in before.predictions}
        marked = [(place, was[entry.piece_ids]) for place, entry in enumerate(entries) if entry.piece_ids in was]
        for number, (place, share) in enumerate(marked):
            label, probability = "untouched" if number == 0 else None, 100 * share
            axes.plot([probability] * 2, [place - 0.42, place + 0.42], color=theme.lines[1], linewidth=2.4, label=label)
        axes.legend(frameon=False, labelcolor=theme.ink, fontsize=points(8), loc="lower right")
    name_cells(axes.yaxis, [shortened(entry.token, MAX_WORD) for entry in entries])
    axes.invert_yaxis()
    axes.set_xlim(0, None)
    axes.set_xlabel(f"probability at characters {mask.start} to {mask.end}, %")
    axes.tick_params(length=3.5)


def _moved(figure: ThemedFigure, axes: Axes, found: InspectionDistances, theme: Theme) -> None:
    moved = 100 * found.moved
    largest = float(np.nanmax(moved)) or 1.0
    image = heat_map(axes, moved, theme.none_to_much, (0, largest))
    name_cells(axes.xaxis, range(moved.shape[1]))
    name_cells(axes.yaxis, range(moved.shape[0]))
    axes.set_xlabel("head")
    axes.set_ylabel("layer")
    figure.add_colorbar(image, axes, "attention that moved, %")
