"""`bertscope retrieve`: how often the translation of a sentence is nearest to it, by layer."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from bertscope.cli import options
from bertscope.cli.options import specifications
from bertscope.cli.options.groups import grouped
from bertscope.cli.options.server import ServerOptions
from bertscope.cli.options.translations import TranslationOptions, enough_left
from bertscope.cli.views import files as output_files
from bertscope.cli.views.output import UsageError, console, print_json
from bertscope.cli.views.progress import waiting
from bertscope.cli.views.retrieval import print_retrieval
from bertscope.cli.views.table_files import require_table, write_files
from bertscope.plots.retrieval import save_retrieval
from bertscope.representations.retrieval import retrieval_columns, retrieval_document


@grouped
def retrieve(
    server: ServerOptions,
    file: TranslationOptions,
    layer: Annotated[
        list[str] | None, typer.Option("--layer", metavar="L[,L]", help="Layers, from 0, the embeddings; all unless set.")
    ] = None,
    pooling: Annotated[
        Literal["mean", "first"], typer.Option("--pooling", help="A sentence's vector: the mean of its pieces, or [CLS].")
    ] = "mean",
    uncentred: Annotated[bool, typer.Option("--uncentred", help="Do not subtract each language's mean.")] = False,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw it: .png, .svg or .pdf.")] = None,
    dark: Annotated[bool, typer.Option("--dark", help="With --plot: draw on a dark page.")] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="Write a row for each layer and direction: .csv, .jsonl, ..."),
    ] = None,
    truncate: options.Truncate = False,
    model: options.ModelName = None,
    timeout: options.LongTimeout = None,
    json: options.Json = False,
) -> None:
    """Count how often the nearest sentence of the other language is the translation, by layer and in both directions.

    Nearest neighbours by Euclidean distance, after each language's mean is subtracted (Pires et al. 2019).
    """
    output_files.require_plot(plot)
    require_table(output)
    if dark and plot is None:
        raise UsageError("--dark goes with --plot")
    source = file.source()
    sources, targets = zip(*source.items, strict=True)
    with server.connect(timeout) as client, enough_left(source), waiting("reading states"):
        found = client.retrieve_sentences(
            sources,
            targets,
            model=model,
            layers=specifications.numbers("--layer", layer),
            pooling=pooling,
            centred=not uncentred,
            truncate=truncate,
            on_rejected=source.reject,
            timeout=timeout,
        )
    written = write_files(retrieval_columns(found), output, plot, lambda path: save_retrieval(found, path, dark=dark))
    if json:
        print_json(retrieval_document(found) | {"left_out": source.left_out})
        return
    screen = console()
    source.print_left_out(screen)
    print_retrieval(screen, found)
    for path in written:
        screen.print(f"wrote {path}", soft_wrap=True)
