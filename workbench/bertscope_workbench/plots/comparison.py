"""Draws comparisons of attention: how alike the maps of each head are (Kovaleva et al. 2019, figure 5).

Imports matplotlib only when a figure is drawn.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from bertscope import AttentionComparison

from bertscope_workbench.plots.attention_statistics import panel_grid
from bertscope_workbench.plots.figures import DARK, LIGHT, require_format, set_title, shown, write

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


def save_comparison(
    comparison: AttentionComparison, path: str | PathLike[str], *, dark: bool = False, title: str | None = None
) -> None:
    """Writes `plot_comparison` as .png, .svg or .pdf, by the suffix of the file's name. Raises ValueError for any other."""
    require_format(path)
    write(plot_comparison(comparison, dark=dark, title=title), Path(path))
