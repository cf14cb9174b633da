"""Draws comparisons of attention: how alike the maps of each head are (Kovaleva et al. 2019, figure 5)."""

from __future__ import annotations

from typing import Unpack

from bertscope import AttentionComparison

from bertscope_workbench.plots.attention_statistics import panel_grid
from bertscope_workbench.plots.figures import Figure, saving
from bertscope_workbench.plots.look import Look, looking
from bertscope_workbench.plots.theme import theme_of

__all__ = ["plot_comparison", "save_comparison"]


@looking
def plot_comparison(comparison: AttentionComparison, **look: Unpack[Look]) -> Figure:
    """Draws 1 - cosine and the divergence of each head as heat maps, a row for each layer, the last one on top; `dark` on a
    dark page."""
    theme = theme_of(look)
    panels = {"1 - cosine": 1 - comparison.cosine.mean(), "divergence (nats)": comparison.divergence.mean()}
    drawn = panel_grid(panels, range(comparison.layers), theme)
    drawn.set_heading(f"how differently heads attend\n{comparison.models}, {comparison.texts} texts")
    return drawn


save_comparison = saving(plot_comparison)
