"""Draws comparisons of attention: how alike the maps of each head are (Kovaleva et al. 2019, figure 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertscope import AttentionComparison

from bertscope_workbench.plots.attention_statistics import panel_grid
from bertscope_workbench.plots.figures import DARK, LIGHT, saving, set_title, shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_comparison", "save_comparison"]


def plot_comparison(comparison: AttentionComparison, *, dark: bool = False, title: str | None = None) -> Figure:
    """Draws 1 - cosine and the divergence of each head as heat maps, a row for each layer, the last one on top; `dark` on a
    dark page."""
    theme = DARK if dark else LIGHT
    panels = {"1 - cosine": 1 - comparison.cosine.mean(), "divergence (nats)": comparison.divergence.mean()}
    drawn = panel_grid(panels, range(comparison.layers), theme)
    default = f"how differently heads attend\n{comparison.models}, {comparison.texts} texts"
    set_title(drawn, shown(default if title is None else title), theme=theme)
    return drawn


save_comparison = saving(plot_comparison)
