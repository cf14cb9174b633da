"""Draws probes: accuracy by layer beside the control task, and what the best layer confuses.

Needs the extra "plot", and imports matplotlib only when a figure is drawn.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bertscope.plots.figures import DARK, LIGHT, add_colorbar, new_figure, outline, require_format, set_title, shown, write
from bertscope.representations.layer_mix import LayerMix
from bertscope.representations.probes import ProbeResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bertscope.plots.figures import Theme

PROBE, CONTROL, SELECTIVITY = "#2f7fc1", "#98a3ae", "#dd6b20"
MAX_CLASSES = 25
"""The most frequent classes that are drawn of a table of confusions."""


def plot_probe(found: ProbeResult, *, dark: bool = False, title: str | None = None) -> Figure:
    """Draws accuracy by layer with its 95 % interval, the control task, selectivity and the most frequent class; then the share
    of each layer in the mix and what it adds to those before it, if there is a mix; then the shares of each class's spans by
    the best layer's answer. `dark` on a dark page.

    Of more than 25 classes the most frequent ones have a row. Raises ImportError without matplotlib.
    """
    theme = DARK if dark else LIGHT
    shown_classes = min(len(found.labels), MAX_CLASSES)
    widths = [6.2, *([4.2] if found.mix is not None else []), 2.6 + 0.22 * shown_classes]
    figure = new_figure(sum(widths), max(4.2, 1.8 + 0.22 * shown_classes), theme=theme)
    curves, *mixes, confusions = figure.subplots(1, len(widths), width_ratios=widths)
    _curves(curves, found, theme)
    if found.mix is not None:
        _mix(mixes[0], found.mix, theme)
    _confusions(figure, confusions, found, theme)
    asked = f"probes of {found.provenance.model}, {len(found.labels)} classes, {found.part.spans} spans ({found.scored})"
    set_title(figure, shown(asked if title is None else title), theme=theme)
    return figure


def save_probe(found: ProbeResult, path: str | PathLike[str], *, dark: bool = False, title: str | None = None) -> None:
    """Writes `plot_probe` as .png, .svg or .pdf, by the suffix of the file's name. Raises ValueError for any other."""
    require_format(path)
    write(plot_probe(found, dark=dark, title=title), Path(path))


def _curves(axes: Axes, found: ProbeResult, theme: Theme) -> None:
    layers = [one.layer for one in found.layers]
    accuracy = np.array([one.accuracy for one in found.layers])
    ends = np.abs(np.array([one.interval for one in found.layers]) - accuracy[:, None]).T
    axes.errorbar(layers, 100 * accuracy, yerr=100 * ends, color=PROBE, marker="o", markersize=4, capsize=2, label="probe")
    control = [100 * one.control_accuracy for one in found.layers]
    axes.plot(layers, control, color=CONTROL, marker="s", markersize=4, label="control task")
    selectivity = [100 * one.selectivity for one in found.layers]
    axes.plot(layers, selectivity, color=SELECTIVITY, linestyle="--", label="selectivity")
    axes.axhline(100 * found.part.majority, color=theme.faint, linestyle=":", label=shown(f"always {found.majority_label}"))
    axes.set_xlabel("layer (0: the embeddings)", color=theme.ink)
    axes.set_ylabel("accuracy, %", color=theme.ink)
    axes.set_xticks(layers)
    axes.tick_params(colors=theme.ink)
    axes.set_ylim(min(0, *selectivity) - 2, 102)
    below = (0.5, -0.16)
    axes.legend(frameon=False, labelcolor=theme.ink, fontsize=8, loc="upper center", bbox_to_anchor=below, ncols=4)
    outline(axes, theme)


def _mix(axes: Axes, mix: LayerMix, theme: Theme) -> None:
    layers = [one.layer for one in mix.cumulative]
    axes.bar(layers, 100 * mix.mixing_weights, color=PROBE, alpha=0.6, label="share of the mix")
    axes.plot(layers[1:], 100 * mix.gains, color=SELECTIVITY, marker="o", markersize=4, label="gain in accuracy")
    axes.axhline(0, color=theme.faint, linewidth=0.8)
    axes.axvline(mix.centre_of_gravity, color=theme.ink, linestyle=":", label=f"centre of gravity {mix.centre_of_gravity:.2f}")
    if mix.expected_layer is not None:
        label = f"expected layer {mix.expected_layer:.2f}"
        axes.axvline(mix.expected_layer, color=SELECTIVITY, linestyle="--", linewidth=1, label=label)
    axes.set_xlabel("layer", color=theme.ink)
    axes.set_ylabel("share of the mix, %; gain, points", color=theme.ink)
    axes.set_xticks(layers)
    axes.tick_params(colors=theme.ink)
    axes.legend(frameon=False, labelcolor=theme.ink, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
    outline(axes, theme)


def _confusions(figure: Figure, axes: Axes, found: ProbeResult, theme: Theme) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    chosen = np.sort(np.argsort(-found.confusion.sum(1), kind="stable")[:MAX_CLASSES])
    counts = found.confusion[np.ix_(chosen, chosen)]
    shares = 100 * counts / np.maximum(found.confusion.sum(1)[chosen, None], 1)
    colors = LinearSegmentedColormap.from_list("shares", theme.none_to_much)
    image = axes.imshow(shares, cmap=colors, vmin=0, vmax=100, interpolation="nearest")
    names = [shown(found.labels[index]) for index in chosen]
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=7, color=theme.ink)
    axes.set_yticks(range(len(names)), names, fontsize=7, color=theme.ink)
    axes.set_xlabel(f"answer of layer {found.best_layer}", color=theme.ink)
    axes.set_ylabel("class", color=theme.ink)
    outline(axes, theme)
    add_colorbar(figure, image, axes, "spans of a class, %", theme=theme)
