"""Draws what a model knows: P@1 and P@10 of each relation with intervals."""

from __future__ import annotations

import math
from typing import Unpack

from bertscope import FactScores, RelationKnowledge
from bertscope.errors import invalid_argument

from bertscope_workbench.plots.figures import Axes, Figure, new_figure, saving
from bertscope_workbench.plots.look import Look, looking
from bertscope_workbench.plots.rows import draw_share, frame_rows
from bertscope_workbench.plots.theme import Theme, theme_of

__all__ = ["plot_facts", "save_facts"]

ROW, MARGIN = 0.34, 1.7
"""Inches: the height of a relation, and of the title, the axis and the legend together."""
MAX_RELATIONS = 60
"""The most relations of a figure; of more, those with most facts are shown."""
MAX_NAME = 28
APART = 0.17
"""Rows: how far the marks of P@1 and P@10 lie from the middle of theirs."""


@looking
def plot_facts(scores: FactScores, **look: Unpack[Look]) -> Figure:
    """Draws a row for each relation, the best known first: P@1 and P@10 with Wilson's 95 % intervals, P@1 without the subject
    where it was asked for, and the means over relations as lines; `dark` on a dark page.

    Raises InvalidArgument if no fact was asked.
    """
    theme = theme_of(look)
    known = [each for each in scores.relations if not math.isnan(each.p_at_1.value)]
    if not known:
        raise invalid_argument("scores", "have no relation of which a fact was asked; there is nothing to draw")
    chosen = sorted(known, key=lambda each: -each.facts)[:MAX_RELATIONS]
    chosen.sort(key=lambda each: (-each.p_at_1.value, -each.p_at_10.value))
    figure = new_figure(7.6, MARGIN + ROW * len(chosen), theme, rows=True)
    axes = figure.subplots()
    for row, each in enumerate(chosen):
        _draw(axes, row, each, theme)
    if len(known) > 1:
        for value, color in ((scores.p_at_1, theme.lines[0]), (scores.p_at_10, theme.lines[1])):
            axes.axvline(100 * value, color=color, linewidth=1.0, linestyle=(0, (4, 3)), zorder=0.5)
        axes.plot([], [], color=theme.ink, linewidth=1.0, linestyle=(0, (4, 3)), label="mean over relations")
    frame_rows(axes, [(each.relation, each.facts) for each in chosen], "facts, % (a line: 95 % interval)", longest=MAX_NAME)
    figure.add_legend(axes, 4)
    left = f"; {len(known) - len(chosen)} relations with fewer facts are not shown" if len(known) > len(chosen) else ""
    by = {"first": "first template", "best": "template that is best on these facts", "mean": "mean over templates"}[
        scores.template
    ]
    default = f"right objects among the likeliest, by the {by}\n{scores.provenance.model}, {scores.facts} facts{left}"
    figure.set_heading(default)
    return figure


save_facts = saving(plot_facts)


def _draw(axes: Axes, row: int, each: RelationKnowledge, theme: Theme) -> None:
    first = "_" if row else ""  # A label that begins so is not in the legend.
    at_1, at_10 = each.p_at_1, each.p_at_10
    draw_share(axes, row - APART, at_1.value, at_1[1:], color=theme.lines[0], theme=theme, label=f"{first}P@1")
    draw_share(axes, row + APART, at_10.value, at_10[1:], color=theme.lines[1], theme=theme, marker="s", label=f"{first}P@10")
    if not math.isnan(each.prior_p_at_1):
        label = f"{first}P@1 without the subject"
        axes.plot(100 * each.prior_p_at_1, row - APART, "x", color=theme.ink, markersize=5, markeredgewidth=1.3, label=label)
