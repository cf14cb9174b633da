"""Draws what only studies show. matplotlib is imported only when a figure is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bertscope_workbench.plots.figures import ThemedFigure, heat_map, name_cells, new_figure
from bertscope_workbench.plots.theme import Theme, shown

CELL = 0.3
"""Inches."""


def rows_of_heads(rows: Mapping[str, npt.NDArray[Any]], theme: Theme) -> ThemedFigure:
    """Draws a heat map with a row for each name and a column for each head of a layer."""
    values = np.stack([*rows.values()])
    names, heads = values.shape
    figure = new_figure(max(4.6, CELL * heads + 3.0), CELL * names + 1.0, theme)
    axes = figure.subplots()
    largest = float(np.nanmax(values))
    image = heat_map(axes, values, theme.none_to_much, (0, largest), missing=theme.faint, origin="upper")
    name_cells(axes.xaxis, range(heads))
    name_cells(axes.yaxis, [*rows])
    axes.set_xlabel("head")
    figure.add_colorbar(image, axes, "largest weight")
    return figure


def curves(layers: Sequence[int], lines: Mapping[str, npt.NDArray[Any]], unit: str, theme: Theme) -> ThemedFigure:
    """Draws a line for each name: its value at each layer, from 0."""
    figure = new_figure(5.6, 3.4, theme)
    axes = figure.subplots()
    axes.grid(axis="y")
    for (name, values), color, marker in zip(lines.items(), theme.lines, "os^v", strict=False):
        axes.plot(layers, values, color=color, marker=marker, markersize=4, label=shown(name))
    axes.set_ylim(bottom=0)
    axes.set_xticks(layers, map(str, layers))
    axes.set_xlabel("layer (0: embeddings)")
    axes.set_ylabel(unit)
    axes.tick_params(length=3.5)
    axes.legend(frameon=False, fontsize=8, labelcolor=theme.ink)
    return figure
