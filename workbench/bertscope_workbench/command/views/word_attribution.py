"""Formats attributions to words: the text in two colours with a signed number under each word; and as JSON."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from bertscope import WordAttribution
from bertscope.questions.attribution.words import WordAttributions
from bertscope.values.documents import fields_of
from bertscope.values.score_targets import described
from rich.console import Console
from rich.text import Text

from bertscope_workbench.command.views.attribution import missed
from bertscope_workbench.command.views.attribution import signed as coloured
from bertscope_workbench.command.views.output import print_cut, printable, table, titled
from bertscope_workbench.plots.words_html import shown_parts, signed, sum_line

SHOWN = 10
"""The interactions that are printed, strongest first."""
BETWEEN = "  "
"""Stands between two words."""
FAINT = 0.05
"""Numbers below this share of the largest one are dim."""


def document(found: WordAttribution) -> dict[str, Any]:
    """Returns the attribution in JSON types, with a record for each word."""
    words = [{name: value for name, value in row.items() if name != "text"} for row in WordAttributions([found]).records()]
    row = {name: value for name, value in found.to_row().items() if name not in ("words", "values", "low", "high")}
    return fields_of(found, "text", "label") | row | {"words": words} | fields_of(found, "provenance")


def print_attribution(screen: Console, found: WordAttribution) -> None:
    """Prints the words, wrapped to the screen, each with its signed value below; how the values add up; and interactions."""
    screen.print(printable(described(found.target, found.label)), style="bold", soft_wrap=True)
    for line in _lines(found, screen.width):
        screen.print(line, soft_wrap=True)
    print_cut(screen, found.truncated_tokens)
    screen.print(sum_line(found))
    if found.interactions is not None:
        screen.print(_interactions(found))
    screen.print(f"{'; '.join(_how(found))}, {found.provenance.model}", style="dim", soft_wrap=True)
    screen.print()


def _how(found: WordAttribution) -> Iterator[str]:
    yield f"{found.method.replace('_', ' ')}, absent words: {found.absent}"
    if found.pairs:
        said = "±: 95 % intervals" if found.interval() else "fewer than 5 pairs, or 7 words, have no intervals"
        yield f"{found.pairs} pairs of orders, {said}"
    if found.error is not None:
        yield f"error {missed(float(found.values.sum()), found.value, found.value_absent)} of the difference"


def _lines(found: WordAttribution, width: int) -> Iterator[Text]:
    """Yields lines of words, each followed by their values, and by the half-widths of their intervals."""
    ends, rows = found.interval(), [Text(), Text(), Text()]
    most = float(np.abs(found.values).max(initial=0)) or 1.0
    for word, index in shown_parts(found):
        cells = [printable(word), Text(), Text()]
        if index is not None:
            value = float(found.values[index])
            style = "cyan" if value > 0 else "yellow"
            cells[0].stylize(style)
            cells[1] = Text(signed(found, value), style="dim" if abs(value) < FAINT * most else style)
            if ends is not None:
                reach = signed(found, (ends[index].high - ends[index].low) / 2).lstrip("+")
                cells[2] = Text(f"±{reach}", style="dim")
        size = max(cell.cell_len for cell in cells)
        if rows[0] and rows[0].cell_len + len(BETWEEN) + size > width:
            yield from _ended(rows)
            rows = [Text(), Text(), Text()]
        for row, cell in zip(rows, cells, strict=True):
            row.append(BETWEEN if row else "")
            cell.pad_right(size - cell.cell_len)
            row.append_text(cell)
    yield from _ended(rows)


def _ended(rows: list[Text]) -> Iterator[Text]:
    for row in rows:
        row.rstrip()
        if row or row is not rows[2]:
            yield row


def _interactions(found: WordAttribution) -> Any:
    """Returns the pairs of words that do most together, of either sign, strongest first."""
    values = np.asarray(found.interactions)
    pairs = sorted(zip(*np.triu_indices(len(values), 1), strict=True), key=lambda pair: -abs(values[pair]))[:SHOWN]
    rows = ([found.words[one], found.words[other], coloured(float(values[one, other]))] for one, other in pairs)
    return titled(
        f"the {len(pairs)} pairs of words that do most together, over what each does alone",
        table(["word", "word", "adds#"], rows),
    )
