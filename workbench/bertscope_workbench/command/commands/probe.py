"""Train a probe on each layer, beside a control task, to see where a label of words can be read out."""

from functools import partial
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import typer
from bertscope import KeptProbe
from bertscope.questions.probes.probes import probe_columns

from bertscope_workbench.command import options
from bertscope_workbench.command.options import specifications
from bertscope_workbench.command.options.groups import Offered, grouped
from bertscope_workbench.command.options.interventions import InterventionOptions
from bertscope_workbench.command.options.results import OutputOptions, print_result
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.views.files import kept, reading
from bertscope_workbench.command.views.probe import document, print_probe
from bertscope_workbench.command.views.progress import training
from bertscope_workbench.plots.probes import save_probe
from bertscope_workbench.readers.span_files import read_probe_texts
from bertscope_workbench.readers.treebanks import ConlluLabel, ProbeTexts

T = TypeVar("T")


@grouped
def probe(
    *,
    server: ServerOptions,
    base: InterventionOptions,
    file: Annotated[Path, typer.Argument(metavar="TRAIN", help="Sentences to train on: .conllu, .tsv or .jsonl.")],
    dev: Annotated[
        Path | None, typer.Option("--dev", metavar="FILE", help="Sentences that end training; a tenth of TRAIN unless set.")
    ] = None,
    test: Annotated[
        Path | None, typer.Option("--test", metavar="FILE", help="Sentences that scores are of; those of --dev unless set.")
    ] = None,
    label: Annotated[
        Literal["upos", "xpos", "deprel", "head", "depth", "arc"],
        typer.Option(
            "--label", help="The column to predict; the head's place; the depth in the tree; or arc, deprel of word and head."
        ),
    ] = "upos",
    layer: options.StateLayers = None,
    pooling: options.WordPooling = "mean",
    l2: Annotated[float | None, typer.Option("--l2", metavar="X", help="Penalty of weights, 1 / C; 1 unless set.")] = None,
    epochs: Annotated[int | None, typer.Option("--epochs", min=1, help="Most passes over TRAIN; 40 unless set.")] = None,
    ending: Annotated[
        Literal["dev", "minimum"],
        typer.Option("--ending", help="End by the dev loss, or at the minimum of the training loss, as scikit-learn does."),
    ] = "dev",
    hidden_units: Annotated[
        int, typer.Option("--hidden-units", min=0, metavar="N", help="Units of a hidden layer; 0 for linear probes.")
    ] = 0,
    mix: Annotated[
        bool, typer.Option("--mix", help="Also train probes on weighted means of layers, to see which layers they take.")
    ] = False,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Probes of each layer that differ in their seed.")] = 1,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The first seed.")] = 0,
    limit: options.LimitOfEach = None,
    out: Annotated[
        OutputOptions,
        Offered("output", "plot", "dark", output="Write a row for each layer: .csv, .tsv, .jsonl, .parquet."),
    ],
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="FILE", help="Keep the probes for `bertscope apply-probe`: a file, .npz.")
    ] = None,
    call: options.LongCallOptions,
) -> None:
    parts = [read_probe_part(path, label, limit) for path in (file, dev, test)]
    with server.connect(call.timeout) as client, training() as show:
        found = client.train_probe(
            parts[0],
            dev=parts[1],
            test=parts[2],
            layers=specifications.numbers("--layer", layer),
            pooling=pooling,
            l2=l2,
            max_epochs=epochs,
            ending=ending,
            hidden_units=hidden_units,
            mix=mix,
            seeds=seeds,
            seed=seed,
            weights=keep is not None,
            **base.arguments(),
            on_progress=show,
            **call.arguments(),
        )
    written = out.write(probe_columns(found), partial(save_probe, found))
    if keep is not None:
        written.append(kept(KeptProbe.of(found).save, keep))
    problems = [problem for part in parts if part for problem in part.problems]
    print_result(found, document, partial(print_probe, problems=problems), json=call.json, written=written)


def read_probe_part(path: Path | None, label: ConlluLabel, limit: int | None) -> ProbeTexts:
    """Returns the texts of a file, none without one. Raises Failure for a file that can't be read."""
    if path is None:
        return ProbeTexts()
    with reading(path):
        return read_probe_texts(path, label, limit=limit)
