"""Draws the geometry of hidden states: cosines by layer, and the part of the largest dimensions in them.

Needs the extra "plot", and imports matplotlib only when a figure is drawn.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bertscope.plots.figures import DARK, LIGHT, Theme, new_figure, outline, require_format, set_title, shown, write
from bertscope.representations.geometry import GeometryDescription

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DIMENSIONS = 3
"""The largest dimensions that are drawn, stacked."""
OTHER_LINE = "#2f9e6e"


def plot_geometry(found: GeometryDescription, *, dark: bool = False, title: str | None = None) -> Figure:
    """Draws the cosines of each layer (Ethayarajh 2019, figures 1 to 3) beside the part of its largest dimensions in the mean
    cosine (Timkey and van Schijndel 2021); `dark` on a dark page. Raises ImportError without matplotlib."""
    theme = DARK if dark else LIGHT
    drawn = new_figure(9.0, 3.8, theme=theme)
    left, right = drawn.subplots(1, 2)
    for axes in (left, right):
        axes.set_facecolor(theme.page)
        axes.grid(axis="y", color=theme.faint, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.set_xlabel("layer (0: embeddings)", color=theme.ink, fontsize=9)
        axes.set_xticks(range(len(found.layers)), [str(layer) for layer in found.layers])
        axes.tick_params(labelsize=8, color=theme.faint, labelcolor=theme.ink)
        outline(axes, theme)
    _cosines(left, found, theme)
    _dimensions(right, found, theme)
    unit = "pieces" if found.pieces else "words"
    default = f"hidden states by layer\n{found.provenance.model}, {found.texts} texts, {found.vectors} {unit}"
    set_title(drawn, shown(default if title is None else title), theme=theme)
    return drawn


def save_geometry(
    found: GeometryDescription, path: str | PathLike[str], *, dark: bool = False, title: str | None = None
) -> None:
    """Writes `plot_geometry` as .png, .svg or .pdf, by the suffix of the file's name. Raises ValueError for any other."""
    require_format(path)
    write(plot_geometry(found, dark=dark, title=title), Path(path))


def _cosines(axes: Axes, found: GeometryDescription, theme: Theme) -> None:
    unit = "pieces" if found.pieces else "words"
    lines = [
        (f"any two {unit}", found.anisotropy(), theme.lines[0], "o"),
        ("with the text's mean, less any two", found.similarity_in_texts(adjusted=True), theme.lines[1], "s"),
        ("the same word, less any two", found.self_similarity(adjusted=True), OTHER_LINE, "^"),
    ]
    for label, values, color, marker in lines:
        if np.isfinite(values).any():
            axes.plot(range(len(values)), values, color=color, marker=marker, markersize=4, linewidth=1.6, label=label)
    axes.set_ylabel("mean cosine", color=theme.ink, fontsize=9)
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, 0), max(high, 0) + 0.25 * (max(high, 0) - min(low, 0)))
    axes.legend(fontsize=8, facecolor=theme.page, edgecolor=theme.faint, labelcolor=theme.ink, loc="upper left")


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
                    fontsize=7,
                    color="white" if sum(rectangle.get_facecolor()[:3]) < 1.5 else "#11181f",
                )
        bottom += heights
    axes.set_ylim(0, max(0.05, min(1.0, 1.15 * float(bottom.max()))))
    axes.set_ylabel("part of the three largest dimensions", color=theme.ink, fontsize=9)
