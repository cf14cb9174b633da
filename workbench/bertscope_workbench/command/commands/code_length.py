"""Measure how many bits the labels of words take, given each layer's states: a short code is a label that is easy to read.

Minimum description length by online coding (Voita and Titov 2020).
"""

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer
from bertscope.questions.probes.code_length import code_columns

from bertscope_workbench.command import options
from bertscope_workbench.command.commands.probe import read_probe_part
from bertscope_workbench.command.options import specifications
from bertscope_workbench.command.options.groups import Offered, grouped
from bertscope_workbench.command.options.interventions import InterventionOptions
from bertscope_workbench.command.options.results import OutputOptions, print_result
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.views.code_length import document, print_code_lengths
from bertscope_workbench.command.views.progress import studying
from bertscope_workbench.plots.code_length import save_code_length


@grouped
def code_length(
    *,
    server: ServerOptions,
    base: InterventionOptions,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Texts whose labels are coded: .conllu, .tsv, .jsonl.")],
    dev: Annotated[
        Path | None, typer.Option("--dev", metavar="FILE", help="Texts that end training; a tenth of the others unless set.")
    ] = None,
    label: Annotated[
        Literal["upos", "xpos", "deprel", "head", "depth"],
        typer.Option("--label", help="The column that is coded, or the head's place, or the depth in the tree."),
    ] = "upos",
    layer: options.StateLayers = None,
    pooling: options.WordPooling = "mean",
    l2: Annotated[float | None, typer.Option("--l2", metavar="X", help="Penalty of weights, 1 / C; 1 unless set.")] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Shuffles the sentences.")] = 0,
    limit: options.LimitOfEach = None,
    out: Annotated[OutputOptions, Offered(output="Write a row for each layer: .csv, .tsv, .jsonl, .parquet.")],
    call: options.LongCallOptions,
) -> None:
    texts, held = (read_probe_part(path, label, limit) for path in (file, dev))
    with server.connect(call.timeout) as client, studying() as show:
        found = client.measure_code_length(
            texts,
            dev=held,
            layers=specifications.numbers("--layer", layer),
            pooling=pooling,
            l2=l2,
            seed=seed,
            **base.arguments(),
            on_progress=lambda event: show("coding", event.done, event.total),
            **call.arguments(),
        )
    written = out.write(code_columns(found), partial(save_code_length, found))
    print_result(found, document, print_code_lengths, json=call.json, written=written)
