"""`bertscope classify`: labels of texts by a fine-tuned model."""

from collections.abc import Generator, Iterator
from functools import partial
from typing import Annotated

import typer

from bertscope.classification import ClassifiedText
from bertscope.cli import options
from bertscope.cli.options.groups import grouped
from bertscope.cli.options.interventions import InterventionOptions
from bertscope.cli.options.server import ServerOptions
from bertscope.cli.options.texts import answer_texts
from bertscope.cli.views.classification import document, print_answer
from bertscope.cli.views.output import UsageError, console


@grouped
def classify(
    server: ServerOptions,
    base: InterventionOptions,
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="[TEXT]...", help='Texts; "-" or none reads lines from stdin.')
    ] = None,
    pair: Annotated[
        str | None, typer.Option("--pair", "--text-pair", metavar="TEXT", help="A second text, read with the one TEXT.")
    ] = None,
    truncate: options.Truncate = False,
    model: options.ModelName = None,
    timeout: options.Timeout = options.TIMEOUT,
    json: options.Json = False,
) -> None:
    """Say which label a fine-tuned model gives to texts, and how likely each is.

    Many texts are answered in groups as they come; with --json, one that is refused means that none is printed.
    """
    if pair is not None and (len(texts or []) != 1 or texts == ["-"]):
        raise UsageError("--pair goes with exactly one TEXT")
    interventions, reference_texts = base.interventions(), base.reference_texts()
    with server.connect(timeout) as client:

        def ask(asked: Iterator[str]) -> Generator[ClassifiedText, None, None]:
            return client.classify_stream(
                asked if pair is None else [(text, pair) for text in asked],
                model=model,
                interventions=interventions,
                reference_texts=reference_texts,
                truncate=truncate,
            )

        answer_texts(texts, ask, show=partial(print_answer, console()), document=document if json else None)
