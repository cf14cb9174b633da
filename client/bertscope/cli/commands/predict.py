"""`bertscope predict`: values of texts by a fine-tuned model, and a ranking of candidates for a query."""

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
from bertscope.cli.views.output import UsageError, console, print_json
from bertscope.cli.views.regression import document, print_ranking, print_value
from bertscope.regression import PredictedValue


@grouped
def predict(
    server: ServerOptions,
    base: InterventionOptions,
    out: ItemOptions,
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="[TEXT]...", help='Texts; "-" or none reads lines from stdin.')
    ] = None,
    pair: Annotated[
        str | None, typer.Option("--pair", "--text-pair", metavar="TEXT", help="A second text, read with the one TEXT.")
    ] = None,
    query: Annotated[
        str | None, typer.Option("--query", metavar="TEXT", help="Read each TEXT as a candidate for this query, and rank them.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--texts", metavar="FILE", help='Read a file: column "text", maybe "text_pair", or .txt.'),
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
    """Give texts or pairs the value that a fine-tuned model predicts: a rating, the similarity of a pair, a relevance.

    With --query, each text is a candidate that a cross-encoder reads with the query; the highest value comes first. Many texts
    are answered in groups as they come; with --json, one that is refused means that none is printed. With --output, a row for
    each text of a file is written as it comes, and --resume goes on with a file that was cut short.
    """
    out.require()
    if pair is not None and (len(texts or []) != 1 or texts == ["-"]):
        raise UsageError("--pair goes with exactly one TEXT")
    if query is not None and (pair is not None or out.output is not None):
        raise UsageError("--query goes with neither --pair nor --output")
    asked: dict[str, Any] = {
        "interventions": base.interventions(),
        "reference_texts": base.reference_texts(),
        "truncate": truncate,
    }
    check_file(file, out, {"--columns": columns, "--limit": limit}, texts=texts, json=json)
    source = None if file is None else ItemSource(file, files.INPUTS, columns, limit)
    with server.connect(timeout) as client:
        if source is not None and out.output is not None:
            write_rows(source, out, partial(client.predict_values_stream, model=model), asked, "predicting")
            return
        read: Iterable[tuple[int | None, Any]] = read_texts(texts or []) if source is None else source.texts()
        if query is not None:
            ranked = client.rank_candidates(query, [text for _, text in read], model=model, **asked)
            if json:
                print_json(document(ranked) | {"query": query})
            else:
                print_ranking(console(), query, ranked)
            return

        def ask(lines: Iterator[Any]) -> Generator[PredictedValue, None, None]:
            inputs = lines if pair is None else [(text, pair) for text in lines]
            return client.predict_values_stream(inputs, model=model, **asked)

        answer_texts(read, ask, show=partial(print_value, console()), document=document if json else None)
