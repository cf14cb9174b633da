"""Make one vector of each text, as the model's folder declares for sentence-transformers, or by another pooling.

With --output, a row for each text of a file is written as it comes, its vector a list of numbers, and --resume goes on
with a file that was cut short.
"""

import dataclasses
from typing import Annotated, Any

import typer
from bertscope import EmbeddedText
from rich.console import Console

from bertscope_workbench.command.options import CallOptions
from bertscope_workbench.command.options.answering import AskedItems, AskingOptions, ItemFileOptions, PairArguments
from bertscope_workbench.command.options.groups import Offered, grouped
from bertscope_workbench.command.views.output import printable

SHOWN = 6
"""Numbers of a vector that are printed; --json and --output have all."""


@grouped
def embed(
    to: AskingOptions,
    given: PairArguments,
    file: Annotated[ItemFileOptions, Offered(file='Make vectors of a file: column "text", maybe "text_pair", or .txt.')],
    call: CallOptions,
    pooling: Annotated[
        str | None, typer.Option("--pooling", metavar="HOW", help="declared, mean, first, last or max; declared if it is.")
    ] = None,
    normalize: Annotated[
        bool | None, typer.Option("--normalize/--no-normalize", help="Divide vectors by their length; as declared unless set.")
    ] = None,
) -> None:
    asked = AskedItems(to, given, file, call)
    own = {"pooling": pooling, "normalize": normalize, "truncate": call.truncate}
    asked.answer("embedding", lambda client: client.embed_texts_stream, print_answer, fields, **own)


def fields(answer: EmbeddedText) -> dict[str, Any]:
    """Returns an answer in JSON types."""
    return dataclasses.asdict(answer) | {"vector": answer.vector.tolist()}


def print_answer(screen: Console, answer: EmbeddedText) -> None:
    """Prints the text, and the size and the first numbers of its vector."""
    title = printable(answer.text)
    if answer.text_pair is not None:
        title.append(" / ", style="dim").append_text(printable(answer.text_pair))
    screen.print(title)
    numbers = "  ".join(f"{value:.4f}" for value in answer.vector[:SHOWN])
    more = " ..." if len(answer.vector) > SHOWN else ""
    screen.print(f"  {numbers}{more}")
    kind = f"{answer.pooling}, normalized" if answer.normalized else answer.pooling
    screen.print(f"  {len(answer.vector)} numbers, {kind}", style="dim")
    if answer.truncated_tokens:
        screen.print(f"{answer.truncated_tokens} tokens were cut away", style="yellow")
