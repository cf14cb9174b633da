"""Draws the surprisal of the words of texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Unpack

from bertscope import ScoredText, ScoredWord
from bertscope.errors import invalid_argument

from bertscope_workbench.plots.figures import Axes, Figure, name_cells, new_figure, saving
from bertscope_workbench.plots.look import Look, looking, points
from bertscope_workbench.plots.theme import Theme, shortened, theme_of

__all__ = ["plot_surprisal", "save_surprisal"]

WORDS_IN_ROW = 18
MAX_ROWS = 24
"""The most rows of words in a figure; what follows is not drawn."""
WIDTH, ROW, MARGIN = 9.0, 1.75, 1.1
"""Inches: the width, the height of a row, and of the title and labels together."""
MAX_WORD = 14
HEADROOM = 1.2
"""The height of a row relative to the longest bar, so that its number has room."""


@looking
def plot_surprisal(texts: ScoredText | Iterable[ScoredText], **look: Unpack[Look]) -> Figure:
    """Draws a bar for each scored word, as high as its surprisal, bits; each text begins a row, and long texts take several.

    All rows have one scale. Texts beyond 24 rows are left out, and the title says so. Raises InvalidArgument for texts without
    words (score them with `pieces=True`).
    """
    theme = theme_of(look)
    scored = [texts] if isinstance(texts, ScoredText) else [*texts]
    if not scored or not all(text.words for text in scored):
        raise invalid_argument("texts", "have no words to draw; score them with pieces=True")
    rows = [row for text in scored for row in _rows(text.words)]
    drawn = rows[:MAX_ROWS]
    figure = new_figure(WIDTH, MARGIN + ROW * len(drawn), theme, rows=True)
    highest = max(word.surprisal_bits for row in drawn for word in row)
    for axes, row in zip(figure.subplots(len(drawn), squeeze=False).ravel(), drawn, strict=True):
        _draw(axes, row, highest, theme)
    figure.supylabel("surprisal, bits", color=theme.ink, fontsize=points(9))
    figure.set_heading(_title(scored, len(rows) - len(drawn)))
    return figure


save_surprisal = saving(plot_surprisal)


def _rows(words: Sequence[ScoredWord]) -> list[Sequence[ScoredWord]]:
    """Returns the words in rows of about the same number."""
    count = -(-len(words) // WORDS_IN_ROW)
    size = -(-len(words) // count)
    return [words[start : start + size] for start in range(0, len(words), size)]


def _draw(axes: Axes, words: Sequence[ScoredWord], highest: float, theme: Theme) -> None:
    heights = [word.surprisal_bits for word in words]
    bars = axes.bar(range(len(words)), heights, width=0.72, color=theme.lines[0])
    axes.bar_label(bars, [f"{height:.1f}" for height in heights], padding=1.5, fontsize=points(7), color=theme.ink)
    names = [shortened(word.text, MAX_WORD) for word in words]
    turned = len(words) > 8 and max(map(len, names)) > 5
    placed: dict[str, Any] = {"rotation": 30, "ha": "right"} if turned else {}
    name_cells(axes.xaxis, names, **placed)
    axes.set_xlim(-0.7, max(len(words), WORDS_IN_ROW // 2) - 0.3)
    axes.set_ylim(0, HEADROOM * highest or 1)
    axes.grid(axis="y")
    axes.spines[["top", "right"]].set_visible(False)


def _title(scored: Sequence[ScoredText], left: int) -> str:
    first = scored[0]
    counts = f"{len(scored)} texts" if len(scored) > 1 else f"log-likelihood {first.log_likelihood:.2f} nats"
    rest = f"; {left} more rows are not shown" if left else ""
    return f"surprisal of words, {first.scoring.replace('_', '-')}\n{first.provenance.model}, {counts}{rest}"
