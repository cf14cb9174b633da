"""Classify words by a probe that was trained before, and show how often it is right."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from bertscope import load_probe
from bertscope.questions.probes.applied_probes import COLUMNS

from bertscope_workbench.command import options
from bertscope_workbench.command.options import specifications
from bertscope_workbench.command.options.groups import Offered, grouped
from bertscope_workbench.command.options.interventions import InterventionOptions
from bertscope_workbench.command.options.results import OutputOptions, print_result
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.options.sources import Source
from bertscope_workbench.command.views.apply_probe import document, print_applied
from bertscope_workbench.command.views.files import reading
from bertscope_workbench.command.views.progress import answering
from bertscope_workbench.command.views.table_files import write_table
from bertscope_workbench.readers.span_files import read_span_texts


@grouped
def apply_probe(
    *,
    server: ServerOptions,
    base: InterventionOptions,
    probe: Annotated[Path, typer.Argument(metavar="PROBE", help="The file that `bertscope probe --keep` wrote.")],
    texts: Annotated[Path, typer.Argument(metavar="TEXTS", help="Texts with spans: .conllu, .tsv or .jsonl.")],
    label: Annotated[
        Literal["upos", "xpos", "deprel", "head", "depth", "arc"],
        typer.Option("--label", help="The column of a .conllu that the probe was trained to predict."),
    ] = "upos",
    layer: Annotated[
        list[str] | None,
        typer.Option("--layer", "--layers", metavar="L[,L]", help="Layers of the probe; all that it has unless set."),
    ] = None,
    any_weights: Annotated[
        bool, typer.Option("--any-weights", help="Apply it to a model with other weights, whose states mean something else.")
    ] = False,
    limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Take the first N texts.")] = None,
    out: Annotated[
        OutputOptions, Offered("output", output="Write a row for each layer and span: .csv, .tsv, .jsonl or .parquet.")
    ],
    call: options.CallOptions,
) -> None:
    with reading(probe):
        kept = load_probe(probe)
    with reading(texts):
        read = read_span_texts(texts, label, limit=limit)
    source = Source(read, [f"{texts}, line {line}" for line in read.lines], [str(problem) for problem in read.problems])
    with server.connect(call.timeout) as client, source.some_left(), answering("classifying") as show:
        found = client.apply_probe(
            kept,
            source.items,
            layers=specifications.numbers("--layer", layer),
            any_weights=any_weights,
            on_progress=show,
            on_rejected=source.reject,
            **base.arguments(),
            **call.arguments(),
        )
    if out.output is not None:
        write_table(COLUMNS, found.rows(), out.output)
    print_result(found, document, print_applied, json=call.json, written=[out.output], source=source)
