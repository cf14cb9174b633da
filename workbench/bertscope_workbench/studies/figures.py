"""Draws what only studies show. matplotlib is imported only when a figure is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bertscope_workbench.plots.figures import Theme, add_colorbar, new_figure, outline, shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CELL = 0.3
"""Inches."""


def rows_of_heads(rows: Mapping[str, npt.NDArray[Any]], theme: Theme) -> Figure:
    """Draws a heat map with a row for each name and a column for each head of a layer."""
    from matplotlib.colors import LinearSegmentedColormap

    values = np.stack([*rows.values()])
    names, heads = values.shape
    figure = new_figure(max(4.6, CELL * heads + 3.0), CELL * names + 1.0, theme=theme)
    axes = figure.subplots()
    colors = LinearSegmentedColormap.from_list("bertscope", theme.none_to_much).with_extremes(bad=theme.faint)
    image = axes.imshow(values, cmap=colors, vmin=0, interpolation="nearest", aspect="equal")
    axes.set_xticks(range(heads), map(str, range(heads)))
    axes.set_yticks(range(names), [shown(name) for name in rows])
    axes.set_xlabel("head", color=theme.ink, fontsize=9)
    axes.tick_params(length=0, labelsize=8, labelcolor=theme.ink)
    outline(axes, theme)
    add_colorbar(figure, image, axes, "largest weight", theme=theme)
    return figure


def curves(layers: Sequence[int], lines: Mapping[str, npt.NDArray[Any]], unit: str, theme: Theme) -> Figure:
    """Draws a line for each name: its value at each layer, from 0."""
    figure = new_figure(5.6, 3.4, theme=theme)
    axes = figure.subplots()
    axes.set_facecolor(theme.page)
    axes.grid(axis="y", color=theme.faint, linewidth=0.6)
    for (name, values), color, marker in zip(lines.items(), theme.lines, "os^v", strict=False):
        axes.plot(layers, values, color=color, marker=marker, markersize=4, label=shown(name))
    axes.set_ylim(bottom=0)
    axes.set_xticks(layers, map(str, layers))
    axes.set_xlabel("layer (0: embeddings)", color=theme.ink, fontsize=9)
    axes.set_ylabel(unit, color=theme.ink, fontsize=9)
    axes.tick_params(labelsize=8, color=theme.faint, labelcolor=theme.ink)
    outline(axes, theme)
    axes.legend(frameon=False, fontsize=8, labelcolor=theme.ink)
    return figure
