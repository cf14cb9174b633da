"""Prints the nearest neighbours of words, and how well one vector could stand for each word."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from bertscope import ExplainableVariance, Neighbourhoods, WordNeighbours
from bertscope.questions.representations.neighbours import neighbour_columns
from bertscope.values.validation import TextOrPair
from rich.console import Console
from rich.text import Text

from bertscope_workbench.command.views.output import plural, printable, table, titled

AROUND = 30
"""Characters that are shown on either side of an occurrence."""
MAX_WORDS = 20


def neighbours_document(found: Neighbourhoods) -> dict[str, Any]:
    """Returns neighbours in JSON types, a row for each."""
    columns = neighbour_columns(found)
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    counts = {"layers": found.layers, "texts": found.texts, "searched": found.searched}
    return counts | {"neighbours": rows, "provenance": dataclasses.asdict(found.provenance)}


def print_neighbours(screen: Console, found: Neighbourhoods, texts: Sequence[TextOrPair]) -> None:
    """Prints each occurrence with the words around it, and its neighbours by layer; `texts` are those of the call."""
    asked = f"{plural(found.texts, 'text')}, {plural(found.searched, 'word')}, "
    screen.print(Text(asked, style="bold").append_text(printable(found.provenance.model)))
    for one in found.found:
        result = table(["layer#", "nearest words (their text): cosine"])
        for layer, nearest in one.neighbours.items():
            named = [
                printable(near.occurrence.token.text).append(f" ({near.occurrence.input_index + 1}): {near.cosine:.2f}")
                for near in nearest
            ]
            result.add_row(str(layer), Text(", ").join(named))
        screen.print(titled(_title(one, texts), result))


def _title(one: WordNeighbours, texts: Sequence[TextOrPair]) -> str:
    """Returns an occurrence with the words around it."""
    given, token = texts[one.occurrence.input_index], one.occurrence.token
    text = given if isinstance(given, str) else given[token.segment]
    before, after = text[: token.start], text[token.end :]
    before = before if len(before) <= AROUND else f"…{before[-AROUND:]}"
    after = after if len(after) <= AROUND else f"{after[:AROUND]}…"
    return f"text {one.occurrence.input_index + 1}: {printable(f'{before}[{token.text}]{after}').plain}"


def print_variance(screen: Console, found: ExplainableVariance) -> None:
    """Prints the shares of the first, middle and last layer of each word, the most frequent first."""
    count = len(found.layers)
    places = sorted({0, count // 2, count - 1})
    result = table(
        ["word", "vectors#", *(column for place in places for column in (f"layer {found.layers[place]}#", "adjusted#"))]
    )
    rows = sorted(found.words.items(), key=lambda item: -item[1].vectors)[:MAX_WORDS]
    for name, each in rows:
        cells = [(each.shares[place], each.adjusted[place]) for place in places]
        result.add_row(printable(name), str(each.vectors), *(f"{100 * value:.1f} %" for cell in cells for value in cell))
    screen.print(
        titled("share of a word's states along their first direction; adjusted: less that of as many random words", result)
    )
    if len(found.words) > len(rows):
        screen.print(f"not shown: {plural(len(found.words) - len(rows), 'word')} (--json has all)", style="dim")
