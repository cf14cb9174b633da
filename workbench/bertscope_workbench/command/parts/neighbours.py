"""Defines the options of `bertscope geometry --neighbours`, and answers it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from bertscope.values.validation import TextOrPair
from rich.console import Console
from rich.text import Text

from bertscope_workbench.analyses.neighbours import Neighbourhoods, WordNeighbours, nearest_neighbours
from bertscope_workbench.analyses.variances import ExplainableVariance
from bertscope_workbench.command.groups import option, refuse, values_of
from bertscope_workbench.command.options import CallOptions
from bertscope_workbench.command.options.results import OutputOptions, print_result
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.options.sources import Source
from bertscope_workbench.command.views.output import fields_of, plural, print_heading, printable, table, titled
from bertscope_workbench.command.views.progress import answering

AROUND = 30
"""Characters that are shown on either side of an occurrence."""
MAX_WORDS = 20


@dataclass(frozen=True)
class NeighbourOptions:
    """Words whose nearest neighbours are looked for."""

    neighbours: Annotated[
        list[str] | None, option("--neighbours WORD", "Show only what is nearest to this word. Repeatable.")
    ] = None
    nearest: Annotated[int | None, option("--nearest N", "So many of them; 5 unless set.", min=1)] = None
    occurrences: Annotated[
        int | None,
        option("--occurrences N", "Of the word's first N occurrences; 3 unless set.", min=1),
    ] = None
    other_words: Annotated[bool, option("--other-words", "With --neighbours: leave out the word's own occurrences.")] = False

    def require_alone(self, others: Mapping[str, Any]) -> None:
        """Raises UsageError for an option of neighbours without a word, and for any of the `others` with one."""
        if not self.neighbours:
            refuse(values_of(self, "nearest", "occurrences", "other_words"), "goes with --neighbours")
        else:
            refuse(others, "does not go with --neighbours")


def find_neighbours(
    server: ServerOptions,
    asked: NeighbourOptions,
    source: Source[TextOrPair],
    out: OutputOptions,
    call: CallOptions,
    **arguments: Any,
) -> None:
    """Finds the neighbours of the words, prints them, and writes the requested file."""
    with server.connect(call.timeout) as client, source.some_left(), answering("searching") as show:
        found = nearest_neighbours(
            client,
            source.items,
            asked.neighbours or [],
            k=asked.nearest or 5,
            occurrences=asked.occurrences or 3,
            other_words=asked.other_words,
            on_progress=show,
            on_rejected=source.reject,
            **arguments,
        )
    print_result(
        found,
        neighbours_document,
        partial(print_neighbours, texts=source.items),
        json=call.json,
        written=out.write(found),
        source=source,
    )


def neighbours_document(found: Neighbourhoods) -> dict[str, Any]:
    """Returns neighbours in JSON types, a row for each."""
    columns = found.columns()
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return fields_of(found, "layers", "texts", "searched") | {"neighbours": rows} | fields_of(found, "provenance")


def print_neighbours(screen: Console, found: Neighbourhoods, texts: Sequence[TextOrPair]) -> None:
    """Prints each occurrence with the words around it, and its neighbours by layer; `texts` are those of the call."""
    print_heading(screen, found.provenance.model, plural(found.texts, "text"), plural(found.searched, "word"))
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
    shown = sorted(found.words.items(), key=lambda item: -item[1].vectors)[:MAX_WORDS]
    columns = ["word", "vectors#", *(column for place in places for column in (f"layer {found.layers[place]}#", "adjusted#"))]
    rows = (
        [printable(name), str(one.vectors)]
        + [f"{100 * value:.1f} %" for place in places for value in (one.shares[place], one.adjusted[place])]
        for name, one in shown
    )
    title = "share of a word's states along their first direction; adjusted: less that of as many random words"
    screen.print(titled(title, table(columns, rows)))
    if len(found.words) > len(shown):
        screen.print(f"not shown: {plural(len(found.words) - len(shown), 'word')} (--json has all)", style="dim")
