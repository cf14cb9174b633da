"""Train a structural probe on each layer, to see whether distances between its states are those in a sentence's tree."""

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer
from bertscope.questions.probes.structural_probes import structural_columns

from bertscope_workbench.command import options
from bertscope_workbench.command.options import specifications
from bertscope_workbench.command.options.groups import Offered, grouped
from bertscope_workbench.command.options.interventions import InterventionOptions
from bertscope_workbench.command.options.results import OutputOptions, print_result
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.views.files import reading
from bertscope_workbench.command.views.progress import training
from bertscope_workbench.command.views.structural_probe import document, print_structural_probe
from bertscope_workbench.plots.structural_probes import save_structural_probe
from bertscope_workbench.readers.treebanks import TreeTexts, read_tree_conllu


@grouped
def structural_probe(
    *,
    server: ServerOptions,
    base: InterventionOptions,
    file: Annotated[Path, typer.Argument(metavar="TRAIN", help="Sentences to train on: a treebank (.conllu).")],
    dev: Annotated[
        Path | None, typer.Option("--dev", metavar="FILE", help="Sentences that end training; a tenth of TRAIN unless set.")
    ] = None,
    test: Annotated[
        Path | None, typer.Option("--test", metavar="FILE", help="Sentences that scores are of; those of --dev unless set.")
    ] = None,
    quantity: Annotated[
        Literal["distance", "depth"],
        typer.Option("--quantity", help="Distances between words in the tree, or the depth of words."),
    ] = "distance",
    rank: Annotated[int | None, typer.Option("--rank", min=1, help="Dimensions of the map; at most 64 unless set.")] = None,
    layer: options.StateLayers = None,
    pooling: options.WordPooling = "mean",
    epochs: Annotated[int | None, typer.Option("--epochs", min=1, help="Most passes over TRAIN; 40 unless set.")] = None,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Probes of each layer that differ in their seed.")] = 1,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The first seed.")] = 0,
    limit: options.LimitOfEach = None,
    out: Annotated[
        OutputOptions,
        Offered("output", "plot", "dark", output="Write a row for each layer: .csv, .tsv, .jsonl, .parquet."),
    ],
    call: options.LongCallOptions,
) -> None:
    parts = [_read(path, limit) for path in (file, dev, test)]
    with server.connect(call.timeout) as client, training() as show:
        found = client.train_structural_probe(
            parts[0],
            quantity=quantity,
            dev=parts[1],
            test=parts[2],
            layers=specifications.numbers("--layer", layer),
            rank=rank,
            pooling=pooling,
            max_epochs=epochs,
            seeds=seeds,
            seed=seed,
            **base.arguments(),
            on_progress=show,
            **call.arguments(),
        )
    written = out.write(structural_columns(found), partial(save_structural_probe, found))
    problems = [problem for part in parts if part for problem in part.problems]
    print_result(found, document, partial(print_structural_probe, problems=problems), json=call.json, written=written)


def _read(path: Path | None, limit: int | None) -> TreeTexts:
    """Returns the sentences of a treebank, none without one. Raises Failure for a file that can't be read."""
    if path is None:
        return TreeTexts()
    with reading(path):
        return read_tree_conllu(path, limit=limit)
