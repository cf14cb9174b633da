"""Draws the attachment scores of trees read off attention, beside those of trees that branch to one side."""

from __future__ import annotations

from typing import Unpack

import numpy as np
from bertscope.errors import invalid_argument

from bertscope_workbench.analyses.trees import TreeScores
from bertscope_workbench.plots.attention_statistics import panel_grid
from bertscope_workbench.plots.figures import Figure, ThemedFigure, name_cells, new_figure, saving
from bertscope_workbench.plots.look import Look, looking
from bertscope_workbench.plots.theme import Theme, theme_of

__all__ = ["plot_trees", "save_trees"]

DIRECTED, UNDIRECTED = "#dd6b20", "#2f7fc1"
ABOVE = "#f08a3c"
"""Dots of maps whose trees are better than a baseline."""
INCHES_PER_LAYER = 0.36


@looking
def plot_trees(scores: TreeScores, **look: Unpack[Look]) -> Figure:
    """Draws attachment scores beside those of trees that branch to the right or to the left; `dark` on a dark page.

    Scores of heads are two heat maps, undirected and directed, a row for each layer, the last one on top; a dot marks a score
    above that of the better baseline, which the title names. Scores of layers are points, baselines dashed lines. Raises
    InvalidArgument without a tree.
    """
    if not scores.words:
        raise invalid_argument("scores", "have no text with a tree; there is nothing to draw")
    theme = theme_of(look)
    figure = _heads(scores, theme) if scores.heads else _layers(scores, theme)
    baselines = (
        f"branching to the right: {100 * scores.right_branching:.1f} %, to the left: {100 * scores.left_branching:.1f} %, "
        f"linked either way: {100 * scores.branching_undirected:.1f} %{'; a dot: above it' if scores.heads else ''}"
    )
    asked = f"{scores.provenance.model}, {scores.texts} texts, {scores.words} words"
    figure.set_heading(f"attachment of maximum spanning trees\n{asked}\n{baselines}")
    return figure


save_trees = saving(plot_trees)


def _heads(scores: TreeScores, theme: Theme) -> ThemedFigure:
    panels = {
        "linked either way, %": (100 * scores.undirected_score(), 100 * scores.branching_undirected),
        "governor found, %": (
            100 * scores.directed_score(),
            100 * max(scores.right_branching, scores.left_branching),
        ),
    }
    figure = panel_grid({name: values for name, (values, _) in panels.items()}, scores.layers, theme)
    drawn = [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]
    for axes, (values, baseline) in zip(drawn, panels.values(), strict=True):
        layers, heads = np.nonzero(values > baseline)
        axes.plot(heads, layers, "o", color=ABOVE, markersize=3.2, markeredgecolor=theme.page, markeredgewidth=0.4)
    return figure


def _layers(scores: TreeScores, theme: Theme) -> ThemedFigure:
    figure = new_figure(max(6.4, 2.4 + INCHES_PER_LAYER * len(scores.layers)), 4.6, theme)
    axes = figure.subplots()
    places = np.arange(len(scores.layers))
    for label, color, values in (
        ("linked either way", UNDIRECTED, scores.undirected_score()),
        ("governor found", DIRECTED, scores.directed_score()),
    ):
        axes.plot(places, 100 * values[:, 0], "o-", color=color, markersize=4.5, linewidth=1.4, label=label)
    for label, color, share in (
        ("either tree, linked either way", UNDIRECTED, scores.branching_undirected),
        ("branching to the right, governor found", DIRECTED, scores.right_branching),
        ("branching to the left, governor found", theme.ink, scores.left_branching),
    ):
        axes.axhline(100 * share, color=color, linewidth=1.1, linestyle="--", alpha=0.8, label=label)
    name_cells(axes.xaxis, scores.layers)
    axes.set_xlim(-0.4, len(places) - 0.6)
    axes.set_ylim(0, None)
    axes.set_xlabel("layer (tree of the mean over its heads)")
    axes.set_ylabel("words, %")
    axes.grid()
    figure.add_legend(axes, 2)
    return figure
