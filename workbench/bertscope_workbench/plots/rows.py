"""Draws the frame that charts with a row for each name share, and the mark of a share with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from bertscope_workbench.plots.figures import Axes, name_cells
from bertscope_workbench.plots.theme import Theme, shortened

MAX_NAME = 44
"""The most characters of a name; a longer one is cut."""
EDGE = 2
"""The free space on both sides of 0 to 100 %, in %."""
SIZE = 5.5
"""The size of a mark, in points."""


def draw_share(
    axes: Axes, place: float, value: float, interval: tuple[float, float] | None, *, color: str, theme: Theme, **mark: Any
) -> None:
    """Draws a share, 0 to 1, as a mark at the height `place`, with a line for its interval unless that is None or NaN.

    `mark` goes to matplotlib: a marker other than the dot, the label in the legend.
    """
    if interval is not None and not math.isnan(interval[0]):
        ends = [100 * interval[0], 100 * interval[1]]
        axes.plot(ends, [place, place], color=color, linewidth=1.6, solid_capstyle="butt")
    shape: dict[str, Any] = {"marker": "o", "markersize": SIZE, "markeredgecolor": theme.page, "markeredgewidth": 0.5}
    axes.plot(100 * value, place, color=color, linewidth=0, **shape | mark)


def frame_rows(axes: Axes, names: Sequence[tuple[str, int]], xlabel: str, *, longest: int = MAX_NAME) -> None:
    """Names the rows, each with its number of items, from the top; the axis is 0 to 100 %."""
    name_cells(axes.yaxis, [f"{shortened(name, longest, '...')} ({count:,})" for name, count in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlim(-EDGE, 100 + EDGE)
    axes.set_xlabel(xlabel)
    axes.grid()
