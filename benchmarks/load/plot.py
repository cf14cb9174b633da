"""Draws load curves: goodput and latency against offered load, side by side, a row for each curve."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bertscope_workbench.plots.figures import new_figure, require_format, write
from bertscope_workbench.plots.theme import FAINT, INK

from benchmarks.load.curve import Curve, usable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GOOD, DEADLINE = "#2371b0", "#d1571c"
PERCENTILE_COLORS = {"p50": "#9ecae8", "p95": "#4292c6", "p99": "#08264f"}


def plot_curves(curves: list[Curve]) -> Figure:
    """Draws goodput as a share of capacity, and the latency of good answers, both against the load. Unusable points are left
    out."""
    figure = new_figure(9.5, 0.7 + 3.4 * len(curves))
    grid = figure.subplots(len(curves), 2, squeeze=False)
    for (left, right), curve in zip(grid, curves, strict=True):
        _goodput(left, curve)
        _latency(right, curve)
    figure.set_heading("Cloze under load: calls arrive by a Poisson process, latency counts from their arrival")
    return figure


def save_curves(curves: list[Curve], path: Path) -> None:
    """Writes `plot_curves` as .png, .svg or .pdf, by the suffix of the file's name. Raises ValueError for any other."""
    require_format(path)
    write(plot_curves(curves), path)


def _goodput(axes: Axes, curve: Curve) -> None:
    points = {load: point for load, point in curve.points.items() if usable(point)}
    capacity = curve.capacity.rate
    loads = list(points)
    axes.plot(loads, [min(load, 1.0) for load in loads], color=FAINT, linestyle="--", linewidth=1.2, label="what is possible")
    shares = [point.goodput / capacity for point in points.values()]
    axes.plot(loads, shares, color=GOOD, marker="o", markersize=3.5, label="answered rightly in time")
    axes.set_ylim(0, 1.2)
    axes.set_ylabel("share of capacity")
    texts = f"{curve.texts} text{'s' * (curve.texts > 1)}"
    axes.set_title(f"{curve.model}, {texts} a call: capacity {capacity:.3g} calls/s", fontsize=9)
    _finish(axes, loads)


def _latency(axes: Axes, curve: Curve) -> None:
    points = {load: point for load, point in curve.points.items() if usable(point)}
    for name, color in PERCENTILE_COLORS.items():
        values = [point.latency[name] * 1000 for point in points.values()]
        axes.plot(list(points), values, color=color, marker="o", markersize=3.5, label=name)
    axes.axhline(curve.plan.deadline * 1000, color=DEADLINE, linestyle="--", linewidth=1, label="deadline")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("")
    axes.set_ylabel("latency of those answered, ms")
    _finish(axes, list(points))


def _finish(axes: Axes, loads: list[float]) -> None:
    axes.set_xscale("log")
    axes.set_xticks(loads, [f"{load:g}" for load in loads])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("offered load, times capacity")
    axes.grid()
    axes.legend(fontsize=7, frameon=False, labelcolor=INK)
    axes.spines[["top", "right"]].set_visible(False)
