"""Draws curves by layer: the same axis, colours and marks in each picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bertscope_workbench.plots.figures import Axes
from bertscope_workbench.plots.look import points
from bertscope_workbench.plots.theme import DARK, LIGHT, Theme

MARKS = ("o", "s", "^", "D")
"""The mark of each curve, for those who don't tell their colours apart."""
THIRD = "#2f9e6e"
"""The colour of the third curve on any page."""
BASELINES = {LIGHT: "#6f7d8b", DARK: "#93a1ae"}
"""The colour of baselines."""
CONTROL = 3
"""The number of the curve that is a baseline at each layer."""
BELOW = 30
"""Points from the axis down to the legend, for letters of 10."""


def layer_axis(axes: Axes, layers: Sequence[int], name: str) -> None:
    """Names the axes: layers across, at whole numbers, and `name` with its unit upwards."""
    axes.grid(axis="y")
    axes.set_xlabel("layer (0: the embeddings)")
    axes.set_ylabel(name)
    axes.set_xticks(layers)
    axes.tick_params(length=3.5)


def curve(
    axes: Axes,
    layers: Sequence[int],
    values: Sequence[float],
    label: str,
    theme: Theme,
    *,
    number: int = 0,
    reach: tuple[Sequence[float], Sequence[float]] | None = None,
    linestyle: str = "-",
) -> None:
    """Draws the first, second or third curve, or `CONTROL`, and its intervals as a band; `reach` are their ends."""
    color = (*theme.lines, THIRD, BASELINES[theme])[number]
    axes.plot(layers, values, color=color, marker=MARKS[number], markersize=4, linewidth=1.6, label=label, linestyle=linestyle)
    if reach is not None:
        axes.fill_between(layers, *reach, color=color, alpha=0.16, linewidth=0)


def baseline(axes: Axes, height: float, label: str, theme: Theme) -> None:
    """Draws a value that does not depend on the layer."""
    axes.axhline(height, color=BASELINES[theme], linestyle=":", linewidth=1.4, label=label)


def legend(axes: Axes, theme: Theme, columns: int) -> None:
    """Names the curves below the axis, where they hide nothing."""
    from matplotlib.transforms import ScaledTranslation

    from bertscope_workbench.plots.themed_figure import columns_within

    labels = axes.get_legend_handles_labels()[1]
    columns = columns_within(axes.get_window_extent().width / axes.figure.dpi, labels, columns)
    below = axes.transAxes + ScaledTranslation(0, -points(BELOW) / 72, axes.figure.dpi_scale_trans)
    place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "bbox_transform": below}
    axes.legend(frameon=False, labelcolor=theme.ink, fontsize=points(8), ncols=columns, **place)
