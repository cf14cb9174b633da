"""Draws sweeps and rankings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt
from bertscope import HeadRanking, MetricEffect, SweepTable
from bertscope.questions.ablation.effects import BETTER, UNITS

from bertscope_workbench.plots.figures import Axes, Figure, ThemedFigure, heat_map, name_cells, new_figure, saving
from bertscope_workbench.plots.look import Look, asked_size, looking, points
from bertscope_workbench.plots.theme import DARK, LIGHT, Theme, shortened, theme_of

__all__ = ["plot_ranking", "plot_sweep", "save_ranking", "save_sweep"]


@dataclass(frozen=True)
class Shades:
    """The colours of effects on a page."""

    worse_to_better: tuple[str, ...]
    """The colours of a scale, the middle one close to the page's."""
    missing: str
    """Heads that were not measured."""
    worse: str
    """Bars of effects that hurt."""
    better: str
    """Bars of effects that help, and curves."""
    undecided: str
    """Bars of effects whose interval contains 0, and baselines."""


SHADES = {
    LIGHT: Shades(
        ("#8c2d04", "#e6753a", "#fbd3b4", "#f7f7f7", "#b8d9ee", "#4292c6", "#0b4a8f"),
        "#9fa8b1", "#d1571c", "#2371b0", "#9aa7b4",
    ),
    DARK: Shades(
        ("#ffa25c", "#c8641f", "#5c2f16", "#18222c", "#1a4368", "#2f86cc", "#74c4ff"),
        "#525a63", "#ee7f3d", "#4f9fd9", "#76828e",
    ),
}  # fmt: skip
INCHES_PER_CELL = 0.42
MAP_SHARE, WORDS_INCHES = 0.9, 1.6
"""The map's largest share of the width, and the height of what is above and below it."""
FAINT_SHARE = 0.25
"""The opacity of a cell whose interval contains 0, or that has none."""

SHARES = ("accuracy", "reciprocal_rank", "token_accuracy", "entity_f1", "answer_f1", "label_f1")
RANGES = (
    dict.fromkeys(SHARES, (0.0, 1.0))
    | dict.fromkeys(("loss", "divergence", "squared_error"), (0.0, math.inf))
    | dict.fromkeys(("pearson", "spearman"), (-1.0, 1.0))
    | {"score_difference": (-math.inf, math.inf)}
)
"""The possible scores."""
NAME_CHARACTERS = 20
"""The most characters of a set of heads, below its bar."""


@looking
def plot_sweep(table: SweepTable, metric: str | None = None, **look: Unpack[Look]) -> Figure:
    """Draws a sweep over heads as a heat map, over layers (or sets) as bars, a greedy one as a curve; `dark` on a dark page.

    The heat map has a row for each layer, the last one on top as papers have it, and a column for each head; blue is better and
    orange worse, whichever way the metric goes; a dot marks an interval that excludes 0, the others are faint, and grey is a
    head that was not measured. Bars and curve show the intervals, within the range of the score. `metric` is the objective's
    first one unless given. Raises KeyError for a metric that was not measured.
    """
    name = table.metric(metric)
    theme = theme_of(look)
    if table.points:
        draw = _curve
    elif table.scope != "layers" and all(effect.head is not None for effect in table.effects):
        draw = _heat_map
    else:
        draw = _bars
    figure = draw(table, name, theme)
    figure.set_heading(_heading(table, name))
    return figure


@looking
def plot_ranking(ranking: HeadRanking, **look: Unpack[Look]) -> Figure:
    """Draws a heat map of gradient importance: a row for each layer, the last one on top, a column for each head; `dark` on a
    dark page."""
    theme = theme_of(look)
    figure, axes = _grid(ranking.importance.shape, theme)
    image = _draw(axes, ranking.importance, theme.none_to_much, 0, float(ranking.importance.max()) or 1, theme)
    figure.add_colorbar(image, axes, "importance (l2-normalised within each layer)", location="bottom")
    default = f"gradient importance of heads, {ranking.provenance.model}\nloss {ranking.loss:.4g}, {ranking.items} items"
    figure.set_heading(default)
    return figure


save_sweep = saving(plot_sweep)

save_ranking = saving(plot_ranking)


def _heat_map(table: SweepTable, metric: str, theme: Theme) -> ThemedFigure:
    differences = table.matrix(metric)
    figure, axes = _grid(differences.shape, theme)
    largest = float(np.nanmax(np.abs(differences))) or 1.0
    if metric in BETTER:
        # Higher is not always better: the colours follow the meaning, the numbers of the bar stay those of the metric.
        colors = SHADES[theme].worse_to_better[:: 1 if BETTER[metric] > 0 else -1]
        image = _draw(axes, differences, colors, -largest, largest, theme)
    else:
        image = _draw(axes, differences, theme.none_to_much, 0, largest, theme)
    image.set_alpha(_opacity(table, metric, differences))
    for effect in table.effects:
        # Every divergence is above 0: marking that would mark every head.
        if metric in BETTER and effect.metrics[metric].decided and effect.layer is not None and effect.head is not None:
            strong = abs(effect.metrics[metric].difference) > 0.6 * largest
            axes.plot(effect.head, effect.layer, marker="o", markersize=3.5, color=theme.page if strong else theme.ink)
    if metric in BETTER:
        axes.set_xlabel("head (a dot: the interval excludes 0; faint: it holds 0, or there is none)")
    figure.add_colorbar(image, axes, _change(metric) + ("; blue is better" if metric in BETTER else ""), location="bottom")
    return figure


def _bars(table: SweepTable, metric: str, theme: Theme) -> ThemedFigure:
    effects = [effect.metrics[metric] for effect in table.effects]
    by_layer = table.scope == "layers"
    names = [str(effect.layer) if by_layer else shortened(effect.name, NAME_CHARACTERS, "...") for effect in table.effects]
    figure = new_figure(max(5.0, 1.6 + 0.45 * len(effects)), 4.2, theme)
    axes = figure.subplots()
    places = np.arange(len(effects))
    axes.bar(places, [effect.difference for effect in effects], color=[_color(effect, theme) for effect in effects], width=0.7)
    axes.errorbar(
        places,
        [effect.difference for effect in effects],
        yerr=_margins(effects, table.baseline[metric]),
        fmt="none",
        ecolor=theme.ink,
        elinewidth=1,
        capsize=2.5,
    )
    _within(axes, metric, table.baseline[metric])
    axes.axhline(0, color=theme.ink, linewidth=0.8)
    long = max(map(len, names)) > 3
    name_cells(axes.xaxis, names, rotation=90 if long else 0)
    axes.set_xlabel("layer" if by_layer else "heads (layer:head,head)")
    axes.set_ylabel(_change(metric))
    _plain(axes)
    return figure


def _curve(table: SweepTable, metric: str, theme: Theme) -> ThemedFigure:
    points = [point.metrics[metric] for point in table.points]
    shares = [100 * point.share_removed for point in table.points]
    baseline = table.baseline[metric]
    figure = new_figure(6.2, 4.2, theme)
    axes = figure.subplots()
    low = [baseline + (point.difference if point.low is None else point.low) for point in points]
    high = [baseline + (point.difference if point.high is None else point.high) for point in points]
    bounds = RANGES.get(metric, (-math.inf, math.inf))
    axes.fill_between(
        shares, np.clip(low, *bounds), np.clip(high, *bounds), color=SHADES[theme].better, alpha=0.18, linewidth=0
    )
    axes.plot(shares, [point.score for point in points], color=SHADES[theme].better, marker="o", markersize=3, clip_on=False)
    _within(axes, metric, 0.0)
    axes.axhline(baseline, color=SHADES[theme].undecided, linewidth=1, linestyle="--")
    axes.set_xlabel("heads removed, % of all (band: interval of the difference to the baseline)")
    axes.set_ylabel(_label(metric))
    _plain(axes)
    return figure


def _grid(shape: tuple[int, ...], theme: Theme) -> tuple[ThemedFigure, Axes]:
    layers, heads = shape
    width = max(4.6, INCHES_PER_CELL * heads + 1.0)
    cells = layers * asked_size(width, 0)[0] * min(MAP_SHARE / heads, INCHES_PER_CELL / width)
    figure = new_figure(width, cells + WORDS_INCHES * max(1, points(1)), theme, rows=True)
    axes = figure.subplots()
    axes.set_xlabel("head")
    axes.set_ylabel("layer")
    return figure, axes


def _draw(axes: Axes, values: npt.NDArray[Any], colors: tuple[str, ...], low: float, high: float, theme: Theme) -> Any:
    image = heat_map(axes, values, colors, (low, high), missing=SHADES[theme].missing)
    layers, heads = values.shape
    name_cells(axes.xaxis, range(heads))
    name_cells(axes.yaxis, range(layers))
    axes.set_xticks(np.arange(heads - 1) + 0.5, minor=True)
    axes.set_yticks(np.arange(layers - 1) + 0.5, minor=True)
    axes.grid(which="minor", color=theme.page, linewidth=1.2)
    return image


def _plain(axes: Axes) -> None:
    axes.grid(axis="y")
    axes.spines[["top", "right"]].set_visible(False)


def _heading(table: SweepTable, metric: str) -> str:
    baseline = f"baseline {_label(metric)}: {table.baseline[metric]:.4g}, " if metric in BETTER else ""
    cut = "" if table.complete else f"\nCUT SHORT: {table.count} of {table.start.total} are measured"
    return f"{table.what}, {table.provenance.model}\n{baseline}{table.start.items} items{cut}"


def _label(metric: str) -> str:
    name = metric.replace("_", " ")
    return f"{name} ({UNITS[metric]})" if metric in UNITS else name


def _change(metric: str) -> str:
    return f"difference in {_label(metric)}" if metric in BETTER else _label(metric)


def _color(effect: MetricEffect, theme: Theme) -> str:
    shades = SHADES[theme]
    return shades.better if effect.helped else shades.worse if effect.hurt else shades.undecided


def _margins(effects: list[MetricEffect], baseline: float) -> npt.NDArray[np.float64]:
    """Returns [2, effects]: the distance of each interval's ends from the difference, within the range of the score; NaN, which
    draws nothing, without an interval."""
    below, above = [], []
    for effect in effects:
        lowest, highest = (end - baseline for end in RANGES.get(effect.metric, (-math.inf, math.inf)))
        below.append(math.nan if effect.low is None else max(0.0, effect.difference - max(effect.low, lowest)))
        above.append(math.nan if effect.high is None else max(0.0, min(effect.high, highest) - effect.difference))
    return np.array([below, above])


def _opacity(table: SweepTable, metric: str, differences: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Returns [layers, heads]: faint where the interval of an effect contains 0, or there is none."""
    opacity = np.ones(differences.shape)
    for effect in table.effects:
        if not effect.metrics[metric].decided:
            opacity[effect.layer or 0, effect.head or 0] = FAINT_SHARE
    return opacity


def _within(axes: Axes, metric: str, baseline: float) -> None:
    """Ends the axis of scores, less the baseline, at the ends of the scores' range."""
    lowest, highest = (end - baseline for end in RANGES.get(metric, (-math.inf, math.inf)))
    low, high = axes.get_ylim()
    axes.set_ylim(max(low, lowest), min(high, highest))
