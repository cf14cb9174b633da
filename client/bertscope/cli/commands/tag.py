"""`bertscope tag`: labels of words by a fine-tuned model."""

from collections.abc import Generator, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from bertscope import files
from bertscope.cli import options
from bertscope.cli.options.groups import grouped
from bertscope.cli.options.interventions import InterventionOptions
from bertscope.cli.options.items import ItemOptions, ItemSource, check_file, write_rows
from bertscope.cli.options.server import ServerOptions
from bertscope.cli.options.texts import answer_texts, read_texts
from bertscope.cli.views.output import console
from bertscope.cli.views.tagging import document, print_tagged
from bertscope.token_classification import TaggedText


@grouped
def tag(
    server: ServerOptions,
    base: InterventionOptions,
    out: ItemOptions,
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="[TEXT]...", help='Texts; "-" or none reads lines from stdin.')
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--texts", metavar="FILE", help='Tag the texts of a file: column "text", maybe "text_pair", or .txt.'),
    ] = None,
    columns: Annotated[
        str | None, typer.Option("--columns", metavar="NAME=COLUMN,...", help="What the file calls them: text=sentence1.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Take the first N of the file.")] = None,
    words: Annotated[bool, typer.Option("--words", help="Print each word with its label, also outside mentions.")] = False,
    top_k: Annotated[
        int, typer.Option("--top-k", min=1, metavar="N", help="Labels of each word; more than 1 prints each word.")
    ] = 1,
    truncate: options.Truncate = False,
    model: options.ModelName = None,
    timeout: options.Timeout = options.TIMEOUT,
    json: options.Json = False,
) -> None:
    """Label the words of texts by a fine-tuned model: named entities, chunks, parts of speech.

    Words whose labels make them one ("B-PER", "I-PER") are shown as one mention. Many texts are answered in groups as they
    come; with --json, one that is refused means that none is printed. With --output, a row for each text of a file is written
    as it comes, and --resume goes on with a file that was cut short.
    """
    out.require()
    asked: dict[str, Any] = {
        "top_k": top_k,
        "interventions": base.interventions(),
        "reference_texts": base.reference_texts(),
        "truncate": truncate,
    }
    check_file(file, out, {"--columns": columns, "--limit": limit}, texts=texts, json=json)
    source = None if file is None else ItemSource(file, files.INPUTS, columns, limit)
    with server.connect(timeout) as client:
        if source is not None and out.output is not None:
            write_rows(source, out, partial(client.classify_tokens_stream, model=model), asked, "tagging")
            return

        def ask(lines: Iterator[Any]) -> Generator[TaggedText, None, None]:
            return client.classify_tokens_stream(lines, model=model, **asked)

        read: Iterable[tuple[int | None, Any]] = read_texts(texts or []) if source is None else source.texts()
        show = partial(print_tagged, console(), words=words or top_k > 1)
        answer_texts(read, ask, show=show, document=document if json else None)
