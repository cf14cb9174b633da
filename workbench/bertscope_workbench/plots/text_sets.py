"""Draws the accuracy of groups of minimal pairs, of one model or of two."""

from __future__ import annotations

from typing import Unpack

from bertscope import GroupAccuracy, TextComparison
from bertscope.errors import invalid_argument
from bertscope.questions.scores.comparison import ALL
from bertscope.values.display import counted

from bertscope_workbench.plots.figures import Axes, Figure, new_figure, saving
from bertscope_workbench.plots.look import Look, looking
from bertscope_workbench.plots.rows import SIZE, draw_share, frame_rows
from bertscope_workbench.plots.theme import Theme, shown, theme_of

__all__ = ["plot_accuracy", "save_accuracy"]

ROW, MARGIN = 0.28, 1.7
"""Inches: the height of a group, and of the title, the axis and the legend together."""
WIDTH = 8.2
MAX_GROUPS = 80
"""The most groups of a figure; those that sets name first are shown."""
APART = 0.17
"""How far the marks of two models are from the middle of a row."""


@looking
def plot_accuracy(comparison: TextComparison, baseline: TextComparison | None = None, **look: Unpack[Look]) -> Figure:
    """Draws a row for each group, and one for all sets: the share of right sets with its interval, and ties beside it; of two
    models, both, and chance as a line.

    Raises InvalidArgument without a set.
    """
    theme = theme_of(look)
    if not comparison.sets:
        raise invalid_argument("comparison", "has no set; there is nothing to draw")
    groups = [*comparison.groups[:MAX_GROUPS], ALL]
    figure = new_figure(WIDTH, MARGIN + ROW * len(groups) * (1.35 if baseline else 1), theme, rows=True)
    axes = figure.subplots()
    models = [comparison] if baseline is None else [comparison, baseline]
    for number, model in enumerate(models):
        offset = 0.0 if baseline is None else APART * (2 * number - 1)
        name = model.sets[0].provenance.model
        for row, group in enumerate(groups):
            _draw(axes, row + offset, model.accuracy(group), theme, theme.lines[number], "_" if row else shown(name))
    sizes = {len(one.texts) for one in comparison.sets}
    sets = counted("pair" if sizes == {2} else "set", len(comparison.sets))
    if len(sizes) == 1:
        axes.axvline(100 / sizes.pop(), color=theme.ink, linewidth=0.8, linestyle=":", label="chance")
    tied = "; a ring: with ties" if any(one.outcome == "tie" for one in comparison.sets) else ""
    names = [(group or "all", comparison.accuracy(group).sets) for group in groups]
    frame_rows(axes, names, f"right, % (a line: 95 % interval{tied})")
    if len(groups) > 1:
        axes.axhline(len(groups) - 1.5, color=theme.faint, linewidth=1)
    figure.add_legend(axes, 3)
    left = len(comparison.groups) + 1 - len(groups)
    rest = f"; {left} more groups are not shown" if left else ""
    scoring = comparison.sets[0].scoring.replace("_", "-")
    figure.set_heading(f"how often the better text scores higher\n{sets}, {scoring}{rest}")
    return figure


save_accuracy = saving(plot_accuracy)


def _draw(axes: Axes, row: float, each: GroupAccuracy, theme: Theme, color: str, label: str) -> None:
    draw_share(axes, row, each.accuracy, each.interval, color=color, theme=theme, label=label)
    if each.tied:
        with_ties = 100 * (each.right + each.tied) / each.sets
        axes.plot(with_ties, row, "o", color=color, markersize=SIZE, markerfacecolor="none", markeredgewidth=1.1)
