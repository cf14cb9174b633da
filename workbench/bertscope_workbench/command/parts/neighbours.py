"""Defines the options of `bertscope geometry --neighbours`, and answers it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import typer
from bertscope.questions.representations.neighbours import neighbour_columns
from bertscope.values.validation import TextOrPair

from bertscope_workbench.command.options import CallOptions
from bertscope_workbench.command.options.groups import refuse
from bertscope_workbench.command.options.results import OutputOptions, print_result
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.options.sources import Source
from bertscope_workbench.command.views.neighbours import neighbours_document, print_neighbours
from bertscope_workbench.command.views.progress import answering


@dataclass(frozen=True)
class NeighbourOptions:
    """Words whose nearest neighbours are looked for."""

    neighbours: Annotated[
        list[str] | None,
        typer.Option("--neighbours", metavar="WORD", help="Show only what is nearest to this word. Repeatable."),
    ] = None
    nearest: Annotated[int | None, typer.Option("--nearest", min=1, metavar="N", help="So many of them; 5 unless set.")] = None
    occurrences: Annotated[
        int | None, typer.Option("--occurrences", min=1, metavar="N", help="Of the word's first N occurrences; 3 unless set.")
    ] = None
    other_words: Annotated[
        bool, typer.Option("--other-words", help="With --neighbours: leave out the word's own occurrences.")
    ] = False

    def require_alone(self, given: Mapping[str, Any]) -> None:
        """Raises UsageError for an option of neighbours without a word, and for any of the others that are `given` with one."""
        if not self.neighbours:
            own = {"--nearest": self.nearest, "--occurrences": self.occurrences, "--other-words": self.other_words}
            refuse(own, "goes with --neighbours")
        else:
            refuse(given, "does not go with --neighbours")


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
        found = client.nearest_neighbours(
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
        written=out.write(neighbour_columns(found)),
        source=source,
    )
