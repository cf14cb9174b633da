"""Count how often the nearest sentence of the other language is the translation, by layer and in both directions.

Nearest neighbours by Euclidean distance, after each language's mean is subtracted (Pires et al. 2019).
"""

from functools import partial
from typing import Annotated, Literal

import typer
from bertscope.questions.representations.retrieval import retrieval_columns, retrieval_document

from bertscope_workbench.command import options
from bertscope_workbench.command.options import specifications
from bertscope_workbench.command.options.groups import Offered, grouped
from bertscope_workbench.command.options.results import OutputOptions, print_result
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.options.translations import TranslationOptions, enough_left
from bertscope_workbench.command.views.progress import waiting
from bertscope_workbench.command.views.retrieval import print_retrieval
from bertscope_workbench.plots.retrieval import save_retrieval


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
