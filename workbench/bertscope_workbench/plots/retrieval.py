"""Draws how often the translation of a sentence is nearest to it, by layer."""

from __future__ import annotations

from typing import Unpack

from bertscope_workbench.analyses.retrieval import RetrievedSentences
from bertscope_workbench.plots.figures import Figure, new_figure, saving
from bertscope_workbench.plots.layer_curves import baseline, curve, layer_axis, legend
from bertscope_workbench.plots.look import Look, looking
from bertscope_workbench.plots.theme import theme_of

__all__ = ["plot_retrieval", "save_retrieval"]


@looking
def plot_retrieval(found: RetrievedSentences, **look: Unpack[Look]) -> Figure:
    """Draws the accuracy of each layer in both directions with its 95 % interval, and that of a guess (Pires et al. 2019,
    figure 3); `dark` on a dark page."""
    theme = theme_of(look)
    figure = new_figure(6.4, 4.2, theme)
    axes = figure.subplots()
    for number, name in enumerate(("source to target", "target to source")):
        back = number == 1
        ends = [[100 * end for end in side] for side in zip(*found.intervals(backward=back), strict=True)]
        heights = (100 * found.accuracy(backward=back)).tolist()
        curve(axes, found.layers, heights, name, theme, number=number, reach=(ends[0], ends[1]))
    baseline(axes, 100 * found.chance, "chance", theme)
    layer_axis(axes, found.layers, "translation is nearest, % of sentences")
    axes.set_ylim(0, 102)
    legend(axes, theme, 3)
    mean = "less each language's mean" if found.centred else "as they are"
    default = f"retrieval of translations by layer\n{found.provenance.model}, {len(found.pairs)} pairs, vectors {mean}"
    figure.set_heading(default)
    return figure


save_retrieval = saving(plot_retrieval)
