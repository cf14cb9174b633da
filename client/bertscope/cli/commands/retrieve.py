"""Count how often the nearest sentence of the other language is the translation, by layer and in both directions.

Nearest neighbours by Euclidean distance, after each language's mean is subtracted (Pires et al. 2019).
"""

from functools import partial
from typing import Annotated, Literal

import typer

from bertscope.cli import options
from bertscope.cli.options import specifications
from bertscope.cli.options.groups import Offered, grouped
from bertscope.cli.options.results import OutputOptions, print_result
from bertscope.cli.options.server import ServerOptions
from bertscope.cli.options.translations import TranslationOptions, enough_left
from bertscope.cli.views.progress import waiting
from bertscope.cli.views.retrieval import print_retrieval
from bertscope.plots.retrieval import save_retrieval
from bertscope.representations.retrieval import retrieval_columns, retrieval_document


@grouped
def retrieve(
    *,
    server: ServerOptions,
    file: TranslationOptions,
    layer: options.Layers = None,
    pooling: Annotated[
        Literal["mean", "first"], typer.Option("--pooling", help="A sentence's vector: the mean of its pieces, or [CLS].")
    ] = "mean",
    uncentred: Annotated[bool, typer.Option("--uncentred", help="Do not subtract each language's mean.")] = False,
    out: Annotated[OutputOptions, Offered(output="Write a row for each layer and direction: .csv, .jsonl, ...")],
    call: options.LongCallOptions,
) -> None:
    source = file.source()
    sources, targets = zip(*source.items, strict=True)
    with server.connect(call.timeout) as client, enough_left(source), waiting("reading states"):
        found = client.retrieve_sentences(
            sources,
            targets,
            layers=specifications.numbers("--layer", layer),
            pooling=pooling,
            centred=not uncentred,
            on_rejected=source.reject,
            **call.arguments(),
        )
    written = out.write(retrieval_columns(found), partial(save_retrieval, found))
    print_result(found, retrieval_document, print_retrieval, json=call.json, written=written, source=source)
