"""Draws the geometry of hidden states: cosines by layer, and the part of the largest dimensions in them."""

from __future__ import annotations

from typing import Unpack

import numpy as np
from bertscope import GeometryDescription

from bertscope_workbench.plots.figures import Axes, Figure, name_cells, saving, side_by_side
from bertscope_workbench.plots.layer_curves import curve, layer_axis
from bertscope_workbench.plots.look import Look, looking, points
from bertscope_workbench.plots.theme import LIGHT, Theme, theme_of

__all__ = ["plot_geometry", "save_geometry"]

DIMENSIONS = 3
"""The largest dimensions that are drawn, stacked."""


@looking
def plot_geometry(found: GeometryDescription, **look: Unpack[Look]) -> Figure:
    """Draws the cosines of each layer (Ethayarajh 2019, figures 1 to 3) beside the part of its largest dimensions in the mean
    cosine (Timkey and van Schijndel 2021); `dark` on a dark page."""
    theme = theme_of(look)
    drawn, (left, right) = side_by_side((4.5, 4.5), 3.8, theme)
    _cosines(left, found, theme)
    _dimensions(right, found, theme)
    unit = "pieces" if found.pieces else "words"
    drawn.set_heading(f"hidden states by layer\n{found.provenance.model}, {found.texts} texts, {found.vectors} {unit}")
    return drawn


save_geometry = saving(plot_geometry)


def _cosines(axes: Axes, found: GeometryDescription, theme: Theme) -> None:
    unit = "pieces" if found.pieces else "words"
    lines = [
        (f"{unit} of two texts", found.anisotropy()),
        (f"{unit} of one text, less these", found.similarity_in_texts(adjusted=True)),
        ("the same word, less these", found.self_similarity(adjusted=True)),
    ]
    for number, (label, values) in enumerate(lines):
        if np.isfinite(values).any():
            curve(axes, range(len(values)), values.tolist(), label, theme, number=number)
    _layers(axes, found, "mean cosine")
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, 0), max(high, 0) + 0.25 * (max(high, 0) - min(low, 0)))
    axes.legend(fontsize=points(8), facecolor=theme.page, edgecolor=theme.faint, labelcolor=theme.ink, loc="upper left")


def _dimensions(axes: Axes, found: GeometryDescription, theme: Theme) -> None:
    shares = found.dimension_shares()
    order = np.argsort(-shares, axis=1)[:, :DIMENSIONS]
    bottom = np.zeros(len(shares))
    for rank in range(order.shape[1]):
        heights = np.nan_to_num(np.clip(shares[np.arange(len(shares)), order[:, rank]], 0, None))
        color = theme.none_to_much[-2 - rank] if theme is LIGHT else theme.none_to_much[2 + rank]
        bars = axes.bar(range(len(shares)), heights, bottom=bottom, color=color, width=0.72)
        for place, rectangle in enumerate(bars):
            if heights[place] > 0.06:
                axes.annotate(
                    str(order[place, rank]),
                    (place, bottom[place] + heights[place] / 2),
                    ha="center",
                    va="center",
                    fontsize=points(7),
                    color="white" if sum(rectangle.get_facecolor()[:3]) < 1.5 else "#11181f",
                )
        bottom += heights
    axes.set_ylim(0, max(0.05, min(1.0, 1.15 * float(bottom.max()))))
    _layers(axes, found, "part of the three largest dimensions")


def _layers(axes: Axes, found: GeometryDescription, name: str) -> None:
    layer_axis(axes, range(len(found.layers)), name)
    name_cells(axes.xaxis, found.layers)
