"""Draws sweeps and rankings. Needs the extra "plot", and imports matplotlib only when a figure is drawn."""

from __future__ import annotations

import math
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bertscope.ablation.effects import BETTER, UNITS, MetricEffect
from bertscope.ablation.ranking import HeadRanking
from bertscope.ablation.sweeps import SweepTable
from bertscope.plots.figures import (
    FAINT,
    INK,
    LIGHT,
    add_colorbar,
    new_figure,
    outline,
    require_format,
    set_title,
    shown,
    write,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WORSE_TO_BETTER = ("#8c2d04", "#e6753a", "#fbd3b4", "#f7f7f7", "#b8d9ee", "#4292c6", "#0b4a8f")
MISSING = "#c3cad2"
WORSE, BETTER_INK, UNDECIDED = "#d1571c", "#2371b0", "#9aa7b4"
INCHES_PER_CELL = 0.42
FAINT_SHARE = 0.25
"""The opacity of a cell whose interval contains 0, or that has none."""

RANGES = {"accuracy": (0.0, 1.0), "reciprocal_rank": (0.0, 1.0), "loss": (0.0, math.inf), "divergence": (0.0, math.inf)}
"""The possible scores."""
NAME_CHARACTERS = 20
"""The most characters of a set of heads, below its bar."""


def plot_sweep(table: SweepTable, metric: str | None = None, *, title: str | None = None) -> Figure:
    """Draws a sweep over heads as a heat map, over layers (or sets) as bars, and a greedy one as a curve.

    The heat map has a row for each layer, the last one on top as papers have it, and a column for each head; blue is better and
    orange worse, whichever way the metric goes; a dot marks an interval that excludes 0, the others are faint, and grey is a
    head that was not measured. Bars and curve show the intervals, within the range of the score. `metric` is the objective's
    first one unless given. Raises KeyError for a metric that was not measured, and ImportError without matplotlib.
    """
    name = table.metric(metric)
    if table.points:
        return _curve(table, name, title)
    if table.scope != "layers" and all(effect.head is not None for effect in table.effects):
        return _heat_map(table, name, title)
    return _bars(table, name, title)


def plot_ranking(ranking: HeadRanking, *, title: str | None = None) -> Figure:
    """Draws a heat map of gradient importance: a row for each layer, the last one on top, a column for each head."""
    figure, axes = _grid(ranking.importance.shape)
    image = _draw(axes, ranking.importance, LIGHT.none_to_much, 0, float(ranking.importance.max()) or 1)
    add_colorbar(figure, image, axes, "importance (l2-normalised within each layer)")
    default = f"gradient importance of heads, {ranking.provenance.model}\nloss {ranking.loss:.4g} nats, {ranking.items} items"
    set_title(figure, shown(default if title is None else title))
    return figure


def save_sweep(table: SweepTable, path: str | PathLike[str], metric: str | None = None, *, title: str | None = None) -> None:
    """Writes `plot_sweep` as .png, .svg or .pdf, by the suffix of the file's name. Raises ValueError for any other."""
    require_format(path)
    write(plot_sweep(table, metric, title=title), Path(path))


def save_ranking(ranking: HeadRanking, path: str | PathLike[str], *, title: str | None = None) -> None:
    """Writes `plot_ranking` as .png, .svg or .pdf, by the suffix of the file's name. Raises ValueError for any other."""
    require_format(path)
    write(plot_ranking(ranking, title=title), Path(path))


def _heat_map(table: SweepTable, metric: str, title: str | None) -> Figure:
    differences = table.matrix(metric)
    figure, axes = _grid(differences.shape)
    largest = float(np.nanmax(np.abs(differences))) or 1.0
    if metric in BETTER:
        # Higher is not always better: the colours follow the meaning, the numbers of the bar stay those of the metric.
        colors = WORSE_TO_BETTER if BETTER[metric] > 0 else WORSE_TO_BETTER[::-1]
        image = _draw(axes, differences, colors, -largest, largest)
    else:
        image = _draw(axes, differences, LIGHT.none_to_much, 0, largest)
    image.set_alpha(_opacity(table, metric, differences))
    for effect in table.effects:
        # Every divergence is above 0: marking that would mark every head.
        if metric in BETTER and effect.metrics[metric].decided and effect.layer is not None and effect.head is not None:
            dark = abs(effect.metrics[metric].difference) > 0.6 * largest
            axes.plot(effect.head, effect.layer, marker="o", markersize=3.5, color="white" if dark else INK)
    if metric in BETTER:
        axes.set_xlabel("head (a dot: the interval excludes 0; faint: it holds 0, or there is none)", color=INK)
    add_colorbar(figure, image, axes, _change(metric) + ("; blue is better" if metric in BETTER else ""))
    _head(figure, table, metric, title)
    return figure


def _bars(table: SweepTable, metric: str, title: str | None) -> Figure:
    effects = [effect.metrics[metric] for effect in table.effects]
    names = [str(effect.layer) if table.scope == "layers" else _short(effect.name) for effect in table.effects]
    figure = new_figure(max(5.0, 1.6 + 0.45 * len(effects)), 4.2)
    axes = figure.subplots()
    places = np.arange(len(effects))
    axes.bar(places, [effect.difference for effect in effects], color=list(map(_color, effects)), width=0.7)
    axes.errorbar(
        places,
        [effect.difference for effect in effects],
        yerr=_margins(effects, table.baseline[metric]),
        fmt="none",
        ecolor=INK,
        elinewidth=1,
        capsize=2.5,
    )
    _within(axes, metric, table.baseline[metric])
    axes.axhline(0, color=INK, linewidth=0.8)
    long = max(map(len, names)) > 3
    axes.set_xticks(places, names, rotation=90 if long else 0, fontsize=8, color=INK)
    axes.set_xlabel("layer" if table.scope == "layers" else "heads (layer:head,head)", color=INK)
    axes.set_ylabel(_change(metric), color=INK)
    _plain(axes)
    _head(figure, table, metric, title)
    return figure


def _curve(table: SweepTable, metric: str, title: str | None) -> Figure:
    points = [point.metrics[metric] for point in table.points]
    shares = [100 * point.share_removed for point in table.points]
    baseline = table.baseline[metric]
    figure = new_figure(6.2, 4.2)
    axes = figure.subplots()
    low = [baseline + (point.difference if point.low is None else point.low) for point in points]
    high = [baseline + (point.difference if point.high is None else point.high) for point in points]
    bounds = RANGES.get(metric, (-math.inf, math.inf))
    axes.fill_between(shares, np.clip(low, *bounds), np.clip(high, *bounds), color=BETTER_INK, alpha=0.18, linewidth=0)
    axes.plot(shares, [point.score for point in points], color=BETTER_INK, marker="o", markersize=3, clip_on=False)
    _within(axes, metric, 0.0)
    axes.axhline(baseline, color=UNDECIDED, linewidth=1, linestyle="--")
    axes.set_xlabel("heads removed, % of all (band: interval of the difference to the baseline)", color=INK)
    axes.set_ylabel(_label(metric), color=INK)
    _plain(axes)
    _head(figure, table, metric, title)
    return figure


def _grid(shape: tuple[int, ...]) -> tuple[Figure, Axes]:
    layers, heads = shape
    figure = new_figure(max(4.6, INCHES_PER_CELL * heads + 2.2), max(3.2, INCHES_PER_CELL * layers + 1.5))
    axes = figure.subplots()
    axes.set_xlabel("head", color=INK)
    axes.set_ylabel("layer", color=INK)
    return figure, axes


def _draw(axes: Axes, values: npt.NDArray[Any], colors: tuple[str, ...], low: float, high: float) -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    shades = LinearSegmentedColormap.from_list("bertscope", colors).with_extremes(bad=MISSING)
    image = axes.imshow(values, cmap=shades, vmin=low, vmax=high, interpolation="nearest", origin="lower")
    layers, heads = values.shape
    axes.set_xticks(range(heads), map(str, range(heads)), fontsize=8, color=INK)
    axes.set_yticks(range(layers), map(str, range(layers)), fontsize=8, color=INK)
    axes.set_xticks(np.arange(heads - 1) + 0.5, minor=True)
    axes.set_yticks(np.arange(layers - 1) + 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=1.2)
    axes.tick_params(which="both", length=0, pad=3)
    outline(axes)
    return image


def _plain(axes: Axes) -> None:
    axes.grid(axis="y", color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, labelsize=8, labelcolor=INK)
    outline(axes)
    axes.spines[["top", "right"]].set_visible(False)


def _head(figure: Figure, table: SweepTable, metric: str, title: str | None) -> None:
    baseline = f"baseline {_label(metric)}: {table.baseline[metric]:.4g}, " if metric in BETTER else ""
    cut = "" if table.complete else f"\nCUT SHORT: {table.count} of {table.start.total} are measured"
    default = f"{table.what}, {table.provenance.model}\n{baseline}{table.start.items} items{cut}"
    set_title(figure, shown(default if title is None else title))


def _label(metric: str) -> str:
    name = metric.replace("_", " ")
    return f"{name} ({UNITS[metric]})" if metric in UNITS else name


def _short(name: str) -> str:
    return name if len(name) <= NAME_CHARACTERS else f"{name[: NAME_CHARACTERS - 3]}..."


def _change(metric: str) -> str:
    return f"difference in {_label(metric)}" if metric in BETTER else _label(metric)


def _color(effect: MetricEffect) -> str:
    return BETTER_INK if effect.helped else WORSE if effect.hurt else UNDECIDED


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
