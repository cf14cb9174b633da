"""`bertscope geometry neighbours`: the words nearest to a word."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from bertscope.values.documents import fields_of
from bertscope.values.validation import TextOrPair
from rich.console import Console
from rich.text import Text

from bertscope_workbench.analyses.neighbours import Neighbour, Neighbourhoods, WordNeighbours, nearest_neighbours
from bertscope_workbench.analyses.variances import ExplainableVariance
from bertscope_workbench.command import options
from bertscope_workbench.command.groups import flag, offered, option
from bertscope_workbench.command.options.describing import TextFileOptions
from bertscope_workbench.command.options.interventions import ModelOptions
from bertscope_workbench.command.options.results import AskedResult, OutputOptions
from bertscope_workbench.command.views.output import plural, print_heading, printable, table, titled
from bertscope_workbench.command.views.progress import answering

AROUND = 30
"""Characters that are shown on either side of an occurrence."""
MAX_WORDS = 20
"""The most words that are shown, those with most vectors."""


def find_neighbours(
    *,
    file: TextFileOptions,
    word: list[str] = option("--word WORD", "Show what is nearest to this word. Repeatable.", default=...),
    nearest: int = option("--nearest N", "So many of them.", default=5, min=1),
    occurrences: int = option("--occurrences N", "Of the word's first N occurrences.", default=3, min=1),
    other_words: bool = flag("--other-words", "Leave out the word's own occurrences."),
    layer: options.Layers = None,
    out: OutputOptions = offered("output", output="Write a row for each neighbour: .csv, .tsv, .jsonl, .parquet, .tex."),
    call: options.CallOptions,
    to: ModelOptions,
) -> None:
    """Show the words of texts whose vectors are nearest to those of a word, by layer.

    Example:

      bertscope geometry neighbours "The bank of the river." "The bank lent money." --word bank --layer 0,3,6
    """
    asked = AskedResult(to, call, out, file.source())
    with asked.asking(answering("searching")) as (client, how):
        found = nearest_neighbours(
            client, asked.items, word, k=nearest, occurrences=occurrences, other_words=other_words, layers=layer, **how
        )
    asked.show(found, neighbours_document, partial(print_neighbours, texts=asked.items))


def neighbours_document(found: Neighbourhoods) -> dict[str, Any]:
    """Returns neighbours in JSON types, a row for each."""
    rows = {"neighbours": found.records()}
    return fields_of(found, "layers", "texts", "searched") | rows | fields_of(found, "provenance")


def print_neighbours(screen: Console, found: Neighbourhoods, texts: Sequence[TextOrPair]) -> None:
    """Prints each occurrence with the words around it, and its neighbours by layer; `texts` are those of the call."""
    print_heading(screen, found.provenance.model, plural(found.texts, "text"), plural(found.searched, "word"))
    for one in found.found:
        rows = ([layer, Text(", ").join(map(_near, nearest))] for layer, nearest in one.neighbours.items())
        result = table(["layer#", "nearest words (their text): cosine"], rows)
        screen.print(titled(_title(one, texts), result))


def _near(near: Neighbour) -> Text:
    return printable(near.occurrence.token.text).append(f" ({near.occurrence.input_index + 1}): {near.cosine:.2f}")


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
    title = "share of a word's states along their first direction; adjusted: less that of as many random words"
    values = {name: [one.shares, one.adjusted] for name, one in found.words.items()}
    print_words(screen, found, values, "%", title, "--json")


def print_words(
    screen: Console,
    found: Any,
    values: Mapping[str, Sequence[Any]],
    form: str,
    title: str,
    rest: str,
) -> None:
    """Prints numbers of words, those with most vectors first, in the first, middle and last layer: one by layer for each word,
    or two, the second one adjusted. `rest` is the option that gives those of all words."""
    count = len(found.layers)
    places = sorted({0, count // 2, count - 1})
    words = sorted(found.words.items(), key=lambda item: -item[1].vectors)[:MAX_WORDS]
    rows = ([name, one.vectors, *(own[place] for place in places for own in values[name])] for name, one in words)
    more = max(map(len, values.values()), default=1) - 1
    columns = (column for place in places for column in (f"layer {found.layers[place]}#{form}", *[f"adjusted#{form}"] * more))
    screen.print(titled(title, table(["word", "vectors#", *columns], rows)))
    if len(found.words) > len(words):
        screen.print(f"not shown: {plural(len(found.words) - len(words), 'word')} ({rest} has all)", style="dim")
