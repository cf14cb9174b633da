"""Draws the lengths of labels' codes by layer."""

from __future__ import annotations

from typing import Unpack

from bertscope_workbench.analyses.code_length import CodeLengths
from bertscope_workbench.plots.figures import Figure, saving, side_by_side
from bertscope_workbench.plots.layer_curves import CONTROL, baseline, curve, layer_axis, legend
from bertscope_workbench.plots.look import Look, looking
from bertscope_workbench.plots.theme import theme_of

__all__ = ["plot_code_length", "save_code_length"]


@looking
def plot_code_length(found: CodeLengths, **look: Unpack[Look]) -> Figure:
    """Draws the code lengths of the labels and of the control task by layer beside the uniform code's, and how many times
    shorter they are (Voita and Titov 2020, figure 2); `dark` on a dark page."""
    theme = theme_of(look)
    figure, (left, right) = side_by_side((5.2, 5.2), 4.2, theme)
    layers = [one.layer for one in found.layers]
    unit, bits = ("kbit", 1000) if found.uniform_bits >= 1000 else ("bits", 1)
    curve(left, layers, [one.bits / bits for one in found.layers], "labels", theme)
    curve(left, layers, [one.control_bits / bits for one in found.layers], "control task", theme, number=CONTROL)
    baseline(left, found.uniform_bits / bits, "uniform code", theme)
    layer_axis(left, layers, f"length of the code, {unit}")
    curve(right, layers, [one.compression for one in found.layers], "labels", theme)
    curve(right, layers, [one.control_compression for one in found.layers], "control task", theme, number=CONTROL)
    baseline(right, 1, "uniform code", theme)
    layer_axis(right, layers, "compression, times")
    for axes in (left, right):
        axes.set_ylim(0, 1.06 * axes.get_ylim()[1])
        legend(axes, theme, 3)
    words = f"{found.spans} labels of {len(found.labels)} classes"
    figure.set_heading(f"description length of labels by layer\n{found.provenance.model}, {words}")
    return figure


save_code_length = saving(plot_code_length)
