"""Draws the figures of a reproduction: a row for each group, beside published figures.

matplotlib is imported only when a figure is drawn.
"""

import math
from collections.abc import Sequence
from typing import Unpack

from bertscope.errors import invalid_argument
from bertscope.values.display import record
from bertscope.values.models import short_name

from bertscope_workbench.papers.published.figures import GroupFigure, is_share
from bertscope_workbench.papers.published.reproduced import Reproduced
from bertscope_workbench.papers.published.shown import WHOLE
from bertscope_workbench.plots.figures import Axes, Figure, new_figure
from bertscope_workbench.plots.look import Look, looking
from bertscope_workbench.plots.rows import draw_share, frame_rows
from bertscope_workbench.plots.theme import Theme, shown, theme_of

ROW, MARGIN, WIDTH = 0.3, 2.0, 6.6
"""Inches: the height of a row; of title, axis and legend together; the width."""
MAX_ROWS = 80
"""The most rows of a figure; of more groups, those with most items are shown."""
APART = 0.28
"""Rows: the distance between the marks of a row."""
MARKERS = "osPX*"
PUBLISHED = ("D", "^", "v", "P", "X")


@record
class Series:
    """One kind of mark: a metric of a model."""

    label: str
    figures: dict[str, GroupFigure]
    """By group."""


@looking
def plot_reproduction(found: Sequence[Reproduced], **look: Unpack[Look]) -> Figure:
    """Draws a row for each group and one for all items: the first metric with Wilson's 95 % interval, for each model, or two
    metrics of one model; published figures are marks of their own; `dark` on a dark page.

    Raises InvalidArgument if nothing was asked.
    """
    theme = theme_of(look)
    asked = [each for each in found if each.asked]
    if not asked:
        raise invalid_argument("found", "has no item that was asked; there is nothing to draw")
    series = series_of(asked)
    rows = _rows(series[0])
    figure = new_figure(WIDTH, MARGIN + ROW * len(rows), theme, rows=True)
    axes = figure.subplots()
    for place, each in enumerate(series):
        _draw(axes, rows, each, (place - (len(series) - 1) / 2) * APART, place, theme)
    reproduction = asked[0].questions.reproduction
    metric = reproduction.metrics[0]
    published = [one for one in reproduction.published if one.metric == metric and one.group in rows]
    for number, name in enumerate(dict.fromkeys(one.model for one in published)):
        own = [one for one in published if one.model == name]
        places = [rows.index(one.group) for one in own]
        axes.plot(
            [100 * one.value for one in own],
            places,
            PUBLISHED[number % len(PUBLISHED)],
            markerfacecolor="none",
            markeredgecolor=theme.ink,
            markersize=6,
            label=shown(f"{name.split('/')[-1]}, published"),
        )
    names = [(group or WHOLE, series[0].figures[group].items) for group in rows]
    frame_rows(axes, names, "% of the items (a line: 95 % interval)")
    figure.add_legend(axes, 2)
    left = len(series[0].figures) - len(rows)
    more = f"; {left} groups with fewer items are not shown" if left else ""
    figure.set_heading(f"{reproduction.title}{more}")
    return figure


def series_of(found: Sequence[Reproduced]) -> list[Series]:
    """Returns the marks to draw: the first metric of several models, or the first two metrics of one."""
    metrics = found[0].questions.reproduction.metrics
    if len(found) > 1:
        return [Series(f"{short_name(each.model)}, {metrics[0]}", _by_group(each.figures, metrics[0])) for each in found]
    (only,) = found
    shares = [metric for metric in metrics if is_share(metric)][:2] or metrics[:1]
    return [Series(f"{short_name(only.model)}, {metric}", _by_group(only.figures, metric)) for metric in shares]


def _by_group(figures: Sequence[GroupFigure], metric: str) -> dict[str, GroupFigure]:
    return {figure.group: figure for figure in figures if figure.metric == metric}


def _rows(series: Series) -> list[str]:
    """Returns the groups of a figure, all items first and then the best group."""
    groups = sorted((group for group in series.figures if group), key=lambda group: -series.figures[group].items)
    chosen = groups[: MAX_ROWS - 1]
    return ["", *sorted(chosen, key=lambda group: -series.figures[group].value)]


def _draw(axes: Axes, rows: list[str], series: Series, shift: float, number: int, theme: Theme) -> None:
    color = theme.lines[number % len(theme.lines)]
    label = shown(series.label)
    for row, group in enumerate(rows):
        one = series.figures.get(group)
        if one is None or math.isnan(one.value):
            continue
        marker = MARKERS[number % len(MARKERS)]
        interval = one.low, one.high
        draw_share(axes, row + shift, one.value, interval, color=color, theme=theme, marker=marker, label=label)
        label = "_"  # A label that begins so is not in the legend.
