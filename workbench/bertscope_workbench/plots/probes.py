"""Draws probes: accuracy by layer beside the control task, and what the best layer confuses."""

from __future__ import annotations

from typing import Unpack

import numpy as np
from bertscope import LayerMix, ProbeResult, RegressionResult

from bertscope_workbench.plots.figures import Axes, Figure, ThemedFigure, heat_map, name_cells, new_figure, saving, side_by_side
from bertscope_workbench.plots.layer_curves import CONTROL, baseline, curve, layer_axis, legend
from bertscope_workbench.plots.look import Look, looking, points
from bertscope_workbench.plots.theme import Theme, shown, theme_of

__all__ = ["plot_probe", "plot_regression_probe", "save_probe", "save_regression_probe"]

LEAST_R_SQUARED = -0.5
MAX_CLASSES = 25
"""The most frequent classes that are drawn of a table of confusions."""


@looking
def plot_probe(found: ProbeResult, **look: Unpack[Look]) -> Figure:
    """Draws accuracy by layer with its 95 % interval, the control task, selectivity and the most frequent class; then the share
    of each layer in the mix and what it adds to those before it, if there is a mix; then the shares of each class's spans by
    the best layer's answer. `dark` on a dark page.

    Of more than 25 classes the most frequent ones have a row.
    """
    theme = theme_of(look)
    shown_classes = min(len(found.labels), MAX_CLASSES)
    widths = [6.2, *([4.2] if found.mix is not None else []), 2.6 + 0.22 * shown_classes]
    figure, (curves, *mixes, confusions) = side_by_side(widths, max(4.2, 1.8 + 0.22 * shown_classes), theme)
    _curves(curves, found, theme)
    if found.mix is not None:
        _mix(mixes[0], found.mix, theme)
    _confusions(figure, confusions, found, theme)
    asked = f"probes of {found.provenance.model}, {len(found.labels)} classes, {found.part.spans} spans ({found.scored})"
    figure.set_heading(asked)
    return figure


save_probe = saving(plot_probe)


@looking
def plot_regression_probe(found: RegressionResult, **look: Unpack[Look]) -> Figure:
    """Draws R^2 by layer with its 95 % interval, and that of the control task. `dark` on a dark page.

    Curves end at -0.5: a probe that does much worse than the mean is as good as one that does a little worse.
    """
    theme = theme_of(look)
    figure = new_figure(6.2, 4.2, theme)
    axes = figure.subplots()
    layers = [one.layer for one in found.layers]
    ends = [[(one.interval or (one.r_squared,) * 2)[side] for one in found.layers] for side in (0, 1)]
    curve(axes, layers, [one.r_squared for one in found.layers], "probe", theme, reach=(ends[0], ends[1]))
    curve(axes, layers, [one.control_r_squared for one in found.layers], "control task", theme, number=CONTROL)
    baseline(axes, 0, "always their mean", theme)
    layer_axis(axes, layers, "R²")
    axes.set_ylim(max(LEAST_R_SQUARED, min(0, *(one.control_r_squared for one in found.layers), *ends[0])) - 0.02, 1.02)
    legend(axes, theme, 3)
    figure.set_heading(f"probes of numbers of {found.provenance.model}, {found.part.spans} spans ({found.scored})")
    return figure


save_regression_probe = saving(plot_regression_probe)


def _curves(axes: Axes, found: ProbeResult, theme: Theme) -> None:
    layers = [one.layer for one in found.layers]
    ends = [[100 * one.interval[side] for one in found.layers] for side in (0, 1)]
    curve(axes, layers, [100 * one.accuracy for one in found.layers], "probe", theme, reach=(ends[0], ends[1]))
    curve(axes, layers, [100 * one.control_accuracy for one in found.layers], "control task", theme, number=CONTROL)
    selectivity = [100 * one.selectivity for one in found.layers]
    curve(axes, layers, selectivity, "selectivity", theme, number=1, linestyle="--")
    baseline(axes, 100 * found.part.majority, shown(f"always {found.majority_label}"), theme)
    layer_axis(axes, layers, "accuracy, %; selectivity, points")
    axes.set_ylim(min(0, *selectivity) - 2, 102)
    legend(axes, theme, 4)


def _mix(axes: Axes, mix: LayerMix, theme: Theme) -> None:
    layers = [one.layer for one in mix.cumulative]
    axes.bar(layers, 100 * mix.mixing_weights, color=theme.lines[0], alpha=0.6, label="share of the mix")
    curve(axes, layers[1:], (100 * mix.gains).tolist(), "gain in accuracy", theme, number=1)
    axes.axvline(mix.centre_of_gravity, color=theme.ink, linestyle=":", label=f"centre of gravity {mix.centre_of_gravity:.2f}")
    if mix.expected_layer is not None:
        label = f"expected layer {mix.expected_layer:.2f}"
        axes.axvline(mix.expected_layer, color=theme.lines[1], linestyle="--", linewidth=1, label=label)
    layer_axis(axes, layers, "share of the mix, %; gain, points")
    axes.axhline(0, color=theme.faint, linewidth=0.8)
    legend(axes, theme, 2)


def _confusions(figure: ThemedFigure, axes: Axes, found: ProbeResult, theme: Theme) -> None:
    chosen = np.sort(np.argsort(-found.confusion.sum(1), kind="stable")[:MAX_CLASSES])
    counts = found.confusion[np.ix_(chosen, chosen)]
    shares = 100 * counts / np.maximum(found.confusion.sum(1)[chosen, None], 1)
    image = heat_map(axes, shares, theme.none_to_much, (0, 100), origin="upper")
    names = [found.labels[index] for index in chosen]
    name_cells(axes.xaxis, names, rotation=90, fontsize=points(7))
    name_cells(axes.yaxis, names, fontsize=points(7))
    axes.set_xlabel(f"answer of layer {found.best_layer}")
    axes.set_ylabel("class")
    figure.add_colorbar(image, axes, "spans of a class, %")
