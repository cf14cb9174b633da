"""Draws the best heads of relations beside their baselines, and the attention of heads to features."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Unpack

from bertscope import BestHead, Direction, FeatureScores, RelationScores
from bertscope.errors import invalid_argument
from bertscope.questions.attention.selection import ChosenOn, Selection

from bertscope_workbench.plots.attention_statistics import panel_grid
from bertscope_workbench.plots.figures import Axes, Figure, new_figure, saving
from bertscope_workbench.plots.look import Look, looking, points
from bertscope_workbench.plots.rows import SIZE, draw_share, frame_rows
from bertscope_workbench.plots.theme import Theme, theme_of

if TYPE_CHECKING:
    from matplotlib.lines import Line2D

__all__ = ["plot_features", "plot_relations", "save_features", "save_relations"]

BEATS, BEATEN, UNTESTED, OFFSET, CHANCE = "#2f7fc1", "#98a3ae", "#7d8894", "#dd6b20", "#8a63b8"
HEADS = {
    BEATS: "best head",
    BEATEN: "best head, not clearly above the offset",
    UNTESTED: "best head, not compared with the offset: too few texts",
}
ROW, MARGIN = 0.24, 2.0
"""Inches: the height of a relation, and of the title, the axis and the legend together."""
MAX_RELATIONS = 60
"""The most relations of a figure; of more, those with most pairs are shown."""
MAX_NAME = 28
CHOSEN_ON: dict[ChosenOn, str] = {
    "half": "chosen on half of the texts, scored on the others",
    "other": "chosen on other texts",
    "same": "chosen on the texts it is scored on",
}


@looking
def plot_relations(
    scores: RelationScores,
    direction: Direction | None = None,
    *,
    select: Selection | RelationScores = "half",
    **look: Unpack[Look],
) -> Figure:
    """Draws a row for each relation, most pairs first: the accuracy of its best head with its interval, of the best fixed
    offset, and of chance; `dark` on a dark page. `select` says which texts choose the heads, as in `best_heads`.

    A head is blue if it beats the offset, by the interval of their difference, grey if it doesn't, and hollow where there is no
    interval that would say so. The head is named as "layer:head" with the direction, the better one unless given. Raises
    InvalidArgument without a pair.
    """
    theme = theme_of(look)
    pairs = {name: score.pairs for name, score in scores.relations.items()}
    found = sorted(scores.best_heads(direction, select=select), key=lambda best: -pairs[best.relation])
    if not found:
        raise invalid_argument("scores", "have no relation with a pair; there is nothing to draw")
    best = found[:MAX_RELATIONS]
    figure = new_figure(8.2, MARGIN + ROW * len(best), theme, rows=True)
    axes = figure.subplots()
    for row, each in enumerate(best):
        _draw(axes, row, each, theme)
    frame_rows(axes, [(each.relation, each.pairs) for each in best], "pairs found, % (a line: 95 % interval)", longest=MAX_NAME)
    axes.annotate("head", (1.01, 1.0), xycoords="axes fraction", va="bottom", fontsize=points(8), color=theme.ink)
    heads = [(_dot(each, theme), label) for each, label in HEADS.items() if each in {_against(one) for one in best}]
    figure.add_legend(axes, 2, first=heads)
    left = f", {len(found) - len(best)} rarer ones are not shown" if len(found) > len(best) else ""
    chosen = CHOSEN_ON[scores.chosen_on(select)]
    default = f"the best head of each relation, {chosen}\n{scores.provenance.model}, {scores.texts} texts{left}"
    figure.set_heading(default)
    return figure


save_relations = saving(plot_relations)


@looking
def plot_features(scores: FeatureScores, **look: Unpack[Look]) -> Figure:
    """Draws a heat map of the attention to each feature, a row for each layer, the last one on top, and a column for each head;
    `dark` on a dark page (Kovaleva et al. 2019, section 4.4).

    Raises InvalidArgument if no text has a feature.
    """
    theme = theme_of(look)
    panels = {name: score.attention.mean() for name, score in scores.features.items() if score.attention.texts}
    if not panels:
        raise invalid_argument("scores", "have no feature that a text has; there is nothing to draw")
    figure = panel_grid(panels, range(scores.layers), theme)
    default = f"the largest mean attention to a token with the feature\n{scores.provenance.model}, {scores.texts} texts"
    figure.set_heading(default)
    return figure


save_features = saving(plot_features)


def _against(best: BestHead) -> str:
    """Returns the colour of a head's dot, by how it compares with the offset."""
    if best.above_offset is None:
        return UNTESTED
    return BEATS if best.beats_offset else BEATEN


def _draw(axes: Axes, row: int, best: BestHead, theme: Theme) -> None:
    first = "_" if row else ""  # A label that begins so is not in the legend.
    color = _against(best)
    axes.plot(
        100 * best.offset_accuracy, row, "|", color=OFFSET, markersize=9, markeredgewidth=2.2, label=f"{first}best offset"
    )
    if not math.isnan(best.chance):
        label = f"{first}chance: other words as far apart"
        axes.plot(100 * best.chance, row, "x", color=CHANCE, markersize=5, markeredgewidth=1.4, label=label)
    draw_share(axes, row, best.accuracy, best.interval, color=color, theme=theme, **_mark(color, theme))
    arrow = "→" if best.direction == "forward" else "←"
    name = f"{best.layer}:{best.head} {arrow}"
    axes.annotate(name, (1.01, row), xycoords=("axes fraction", "data"), va="center", fontsize=points(8), color=theme.ink)


def _dot(color: str, theme: Theme) -> Line2D:
    from matplotlib.lines import Line2D

    usual: dict[str, Any] = {"marker": "o", "markersize": SIZE, "markeredgecolor": theme.page, "linewidth": 0}
    return Line2D([], [], color=color, **usual | _mark(color, theme))


def _mark(color: str, theme: Theme) -> dict[str, Any]:
    """Returns what makes a dot hollow, if it is of a head that was not tested."""
    hollow = {"markerfacecolor": theme.page, "markeredgecolor": color, "markeredgewidth": 1.4}
    return hollow if color == UNTESTED else {}
