"""`bertscope classify`: labels of texts by a fine-tuned model."""

from collections.abc import Generator, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from bertscope import files
from bertscope.classification import ClassifiedText
from bertscope.cli import options
from bertscope.cli.options.groups import grouped
from bertscope.cli.options.interventions import InterventionOptions
from bertscope.cli.options.items import ItemOptions, ItemSource, check_file, write_rows
from bertscope.cli.options.server import ServerOptions
from bertscope.cli.options.texts import answer_texts, read_texts
from bertscope.cli.views.classification import document, print_answer
from bertscope.cli.views.output import UsageError, console


@grouped
def classify(
    server: ServerOptions,
    base: InterventionOptions,
    out: ItemOptions,
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="[TEXT]...", help='Texts; "-" or none reads lines from stdin.')
    ] = None,
    pair: Annotated[
        str | None, typer.Option("--pair", "--text-pair", metavar="TEXT", help="A second text, read with the one TEXT.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--texts", metavar="FILE", help='Classify a file: column "text", maybe "text_pair", or .txt.'),
    ] = None,
    columns: Annotated[
        str | None, typer.Option("--columns", metavar="NAME=COLUMN,...", help="What the file calls them: text=sentence1.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Take the first N of the file.")] = None,
    truncate: options.Truncate = False,
    model: options.ModelName = None,
    timeout: options.Timeout = options.TIMEOUT,
    json: options.Json = False,
) -> None:
    """Say which label a fine-tuned model gives to texts, and how likely each is.

    Many texts are answered in groups as they come; with --json, one that is refused means that none is printed. With --output,
    a row for each text of a file is written as it comes, and --resume goes on with a file that was cut short.
    """
    out.require()
    if pair is not None and (len(texts or []) != 1 or texts == ["-"]):
        raise UsageError("--pair goes with exactly one TEXT")
    asked: dict[str, Any] = {
        "interventions": base.interventions(),
        "reference_texts": base.reference_texts(),
        "truncate": truncate,
    }
    given = {"--columns": columns, "--limit": limit}
    check_file(file, out, given, texts=texts, json=json)
    source = None if file is None else ItemSource(file, files.INPUTS, columns, limit)
    with server.connect(timeout) as client:
        if source is not None and out.output is not None:
            write_rows(source, out, partial(client.classify_stream, model=model), asked, "classifying")
            return

        def ask(lines: Iterator[Any]) -> Generator[ClassifiedText, None, None]:
            inputs = lines if pair is None else [(text, pair) for text in lines]
            return client.classify_stream(inputs, model=model, **asked)

        read: Iterable[tuple[int | None, Any]] = read_texts(texts or []) if source is None else source.texts()
        answer_texts(read, ask, show=partial(print_answer, console()), document=document if json else None)
