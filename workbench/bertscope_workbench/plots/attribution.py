"""Draws what heads and feed-forward blocks add to the difference of two answers' logits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from bertscope import LogitAttribution

from bertscope_workbench.plots.figures import (
    DARK,
    LIGHT,
    Theme,
    add_colorbar,
    new_figure,
    outline,
    saving,
    set_title,
    shown,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_attribution", "save_attribution"]

CELL = 0.36
"""Inches of a cell."""
MARGINS = 2.9, 1.9
MIN_WIDTH, MIN_HEIGHT = 6.6, 3.6
"""Inches: around the cells, and at least."""
AGAINST, FOR = "#d9711c", "#2470b3"
"""Parts that favour the other answer, and the answer."""
BLOCK = 2
"""The columns of cells that the feed-forward block is as wide as."""
MAX_TICKS = 16


def plot_attribution(found: LogitAttribution, *, dark: bool = False, title: str | None = None) -> Figure:
    """Draws a heat map of layers by heads, the last layer on top, with the feed-forward blocks beside it: blue is for the
    answer, orange for the other; `dark` on a dark page."""
    theme = DARK if dark else LIGHT
    layers, heads = found.heads.shape
    width = max(MIN_WIDTH, MARGINS[0] + CELL * (heads + BLOCK))
    figure = new_figure(width, max(MIN_HEIGHT, MARGINS[1] + CELL * layers), theme=theme)
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(heads, BLOCK))
    most = max(float(np.abs(found.heads).max(initial=0)), float(np.abs(found.feed_forward).max(initial=0))) or 1.0
    image = _draw(left, found.heads, most, theme)
    _draw(right, found.feed_forward[:, None], most, theme)
    step = -(-heads // MAX_TICKS)
    left.set_xticks(range(0, heads, step), [str(head) for head in range(0, heads, step)])
    right.set_xticks([0], ["feed-forward"])
    left.set_yticks(range(layers), [str(layer) for layer in range(layers)])
    left.set_xlabel("head", color=theme.ink, fontsize=8)
    left.set_ylabel("layer", color=theme.ink, fontsize=8)
    add_colorbar(figure, image, [left, right], "added, logits", theme=theme)
    text = found.text if isinstance(found.text, str) else " / ".join(found.text)
    rest = f"embeddings {found.embeddings:+.2f}, biases {found.biases:+.2f}"
    difference = f"{found.answer} (blue) minus {found.other_answer} (orange): {found.difference:+.2f}"
    default = f"{text}\n{difference}; {rest}\n{found.provenance.model}"
    set_title(figure, shown(default if title is None else title), theme=theme)
    return figure


save_attribution = saving(plot_attribution)


def _draw(axes: Axes, values: Any, most: float, theme: Theme) -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    colors = LinearSegmentedColormap.from_list("bertscope", (AGAINST, theme.none_to_much[0], FOR))
    image = axes.imshow(values, cmap=colors, vmin=-most, vmax=most, interpolation="nearest", aspect="auto", origin="lower")
    axes.tick_params(length=0, labelsize=8, labelcolor=theme.ink)
    outline(axes, theme)
    return image
