"""Draws traces: which place of a model carries an answer."""

from __future__ import annotations

import math
from typing import Unpack

import numpy as np
from bertscope import Trace
from bertscope.questions.ablation.traces import SITES, heading

from bertscope_workbench.plots.figures import (
    Axes,
    Figure,
    ThemedFigure,
    heat_map,
    letters_in_cell,
    name_cells,
    new_figure,
    saving,
)
from bertscope_workbench.plots.look import Look, looking, points
from bertscope_workbench.plots.sweeps import SHADES
from bertscope_workbench.plots.theme import Theme, shortened, shown, theme_of
from bertscope_workbench.plots.trace_html import is_map, place_name, shown_what, strongest

__all__ = ["plot_trace", "save_trace"]

CELL_WIDTH, CELL_HEIGHT = 0.46, 0.34
MARGINS = 2.2, 2.1
"""Inches: a cell, and the width and height of all that is around the cells."""
MIN_WIDTH = 5.2
MAX_POSITIONS = 60
"""The most positions in a figure; those that follow are not drawn."""
MAX_WORD = 14
MARKED = 0.05
"""From this share of the largest number on, a cell has its number."""
STRONG = 0.6
"""From this share on, the ink in a cell is that of the page."""


@looking
def plot_trace(found: Trace, *, what: str | None = None, site: str | None = None, **look: Unpack[Look]) -> Figure:
    """Draws a heat map of layers by positions, the last layer on top: in blue what a place recovers of the other run's answer,
    in orange what goes the other way, with numbers where they are worth reading; a map for each site; `dark` on a dark page.

    `what` is "recovery" unless given, or "difference", which a trace without another run has alone; `site` draws one of
    several. Paths, and single heads or neurons, are bars of the strongest 20. Positions after the 60th are left out, and the
    title says so. Raises InvalidArgument for a site that was not changed.
    """
    theme, chosen = theme_of(look), what or shown_what(found)
    if not is_map(found):
        return _bars(found, chosen, theme)
    sites = found.sites if site is None else (site,)
    positions, layers = min(len(found.names), MAX_POSITIONS), len(found.layers)
    width = max(MIN_WIDTH, MARGINS[0] + CELL_WIDTH * positions)
    figure = new_figure(width, MARGINS[1] * (1 + len(sites)) / 2 + CELL_HEIGHT * layers * len(sites), theme, rows=True)
    every = figure.subplots(len(sites), squeeze=False)[:, 0]
    for axes, each in zip(every, sites, strict=True):
        _draw(figure, axes, found, chosen, each, theme)
        if len(sites) > 1:
            axes.set_title(SITES.get(each, each))
    left = len(found.names) - positions
    rest = f"\n{left} more positions are not shown" if left else ""
    figure.set_heading("\n".join(heading(found)) + rest)
    return figure


save_trace = saving(plot_trace)


def _draw(figure: ThemedFigure, axes: Axes, found: Trace, what: str, site: str, theme: Theme) -> None:
    values = found.matrix(what, site)[:, :MAX_POSITIONS]
    most = max(float(np.nanmax(np.abs(values), initial=0.0)), 1.0 if what == "recovery" else 0.0) or 1.0
    shades = SHADES[theme]
    image = heat_map(axes, values, shades.worse_to_better, (-most, most), missing=shades.missing, aspect="auto")
    numbered = letters_in_cell(figure, values.shape[1]) >= len("-0.00")
    for (row, column), value in np.ndenumerate(values):
        if numbered and not math.isnan(value) and abs(value) >= MARKED * most:
            ink = theme.page if abs(value) >= STRONG * most else theme.ink
            axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=points(7), color=ink)
    names = [shortened(name, MAX_WORD) for name in found.names[:MAX_POSITIONS]]
    name_cells(axes.xaxis, names, rotation=45, ha="right", rotation_mode="anchor")
    name_cells(axes.yaxis, found.layers)
    axes.set_ylabel("layer (what it reads)" if site == "state" else "layer")
    figure.add_colorbar(image, axes, _unit(found, what))


def _bars(found: Trace, what: str, theme: Theme) -> Figure:
    effects = strongest(found)
    values = [getattr(effect, what) for effect in effects]
    figure = new_figure(7.0, MARGINS[1] + 0.24 * len(effects), theme, rows=True)
    axes, shades = figure.subplots(), SHADES[theme]
    axes.barh(range(len(values)), values, color=[shades.better if value > 0 else shades.worse for value in values], height=0.7)
    name_cells(axes.yaxis, [shown(place_name(found, effect)) for effect in effects])
    axes.invert_yaxis()
    axes.axvline(0, color=theme.ink, linewidth=0.8)
    axes.set_xlabel(f"{_unit(found, what)}; the strongest {len(effects)} of {len(found.effects)}")
    axes.grid(axis="x")
    axes.spines[["top", "right"]].set_visible(False)
    figure.set_heading("\n".join(heading(found)))
    return figure


def _unit(found: Trace, what: str) -> str:
    if what == "difference":
        return "difference of the score"
    return "share of the other run's answer" if found.direction == "break" else "recovered share of the clean answer"
