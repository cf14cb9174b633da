"""Draws structural probes: scores and correlations by layer, beside random projections and words in a chain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from bertscope import StructuralProbeResult

from bertscope_workbench.plots.figures import Axes, Figure, saving, side_by_side
from bertscope_workbench.plots.layer_curves import CONTROL, baseline, curve, layer_axis, legend
from bertscope_workbench.plots.look import Look, looking
from bertscope_workbench.plots.theme import Theme, theme_of

__all__ = ["plot_structural_probe", "save_structural_probe"]


@looking
def plot_structural_probe(found: StructuralProbeResult, **look: Unpack[Look]) -> Figure:
    """Draws the share of edges or roots found by layer, and beside it the correlation: each with those of random projections
    and of words in a chain. `dark` on a dark page."""
    theme = theme_of(look)
    figure, (left, right) = side_by_side((5.2, 5.2), 4.2, theme)
    distances = found.quantity == "distance"
    scores = [100 * one.score for one in found.layers]
    control = [100 * one.control_score for one in found.layers]
    name = "edges found (UUAS), %" if distances else "roots found, %"
    ends = [[100 * one.spread[side] for one in found.layers] for side in (0, 1)]
    _curves(left, found, (scores, control, 100 * found.chain_score), name, theme, (ends[0], ends[1]))
    left.set_ylim(0, 102)
    correlations = [one.spearman for one in found.layers], [one.control_spearman for one in found.layers]
    name = "Spearman's correlation (DSpr.)" if distances else "Spearman's correlation (NSpr.)"
    _curves(right, found, (*correlations, found.chain_spearman), name, theme)
    right.set_ylim(min(0.0, *correlations[0], *correlations[1], found.chain_spearman) - 0.02, 1.02)
    asked = f"{found.quantity} in the tree by rank {found.rank} of {found.provenance.model}"
    asked += f", {found.part.used_texts} sentences ({found.scored})"
    figure.set_heading(asked)
    return figure


save_structural_probe = saving(plot_structural_probe)


def _curves(
    axes: Axes,
    found: StructuralProbeResult,
    values: tuple[Sequence[float], Sequence[float], float],
    name: str,
    theme: Theme,
    reach: tuple[Sequence[float], Sequence[float]] | None = None,
) -> None:
    layers = [one.layer for one in found.layers]
    probe, control, chain = values
    curve(axes, layers, probe, "probe", theme, reach=reach)
    curve(axes, layers, control, "random projection", theme, number=CONTROL)
    baseline(axes, chain, "words in a chain", theme)
    layer_axis(axes, layers, name)
    legend(axes, theme, 3)
