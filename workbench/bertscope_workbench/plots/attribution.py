"""Draws what heads and feed-forward blocks add to the difference of two answers' logits."""

from __future__ import annotations

from typing import Unpack

import numpy as np
from bertscope import LogitAttribution

from bertscope_workbench.plots.figures import Figure, heat_map, name_cells, new_figure, saving
from bertscope_workbench.plots.look import Look, looking
from bertscope_workbench.plots.theme import theme_of

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


@looking
def plot_attribution(found: LogitAttribution, **look: Unpack[Look]) -> Figure:
    """Draws a heat map of layers by heads, the last layer on top, with the feed-forward blocks beside it: blue is for the
    answer, orange for the other; `dark` on a dark page."""
    theme = theme_of(look)
    layers, heads = found.heads.shape
    width = max(MIN_WIDTH, MARGINS[0] + CELL * (heads + BLOCK))
    figure = new_figure(width, max(MIN_HEIGHT, MARGINS[1] + CELL * layers), theme)
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(heads, BLOCK))
    most = max(float(np.abs(found.heads).max(initial=0)), float(np.abs(found.feed_forward).max(initial=0))) or 1.0
    colors = AGAINST, theme.none_to_much[0], FOR
    image = heat_map(left, found.heads, colors, (-most, most), aspect="auto")
    heat_map(right, found.feed_forward[:, None], colors, (-most, most), aspect="auto")
    name_cells(left.xaxis, range(heads), MAX_TICKS)
    name_cells(right.xaxis, ["feed-forward"])
    name_cells(left.yaxis, range(layers))
    left.set_xlabel("head")
    left.set_ylabel("layer")
    figure.add_colorbar(image, [left, right], "added, logits")
    text = found.text if isinstance(found.text, str) else " / ".join(found.text)
    rest = f"embeddings {found.embeddings:+.2f}, biases {found.biases:+.2f}"
    difference = f"{found.answer} (blue) minus {found.other_answer} (orange): {found.difference:+.2f}"
    figure.set_heading(f"{text}\n{difference}; {rest}\n{found.provenance.model}")
    return figure


save_attribution = saving(plot_attribution)
