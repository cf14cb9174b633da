"""`bertscope probe`: what can be read out of each layer of a model."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import typer

from bertscope.cli import options
from bertscope.cli.options import specifications
from bertscope.cli.options.groups import grouped
from bertscope.cli.options.interventions import InterventionOptions
from bertscope.cli.options.server import ServerOptions
from bertscope.cli.views import files as output_files
from bertscope.cli.views.output import Failure, UsageError, console, print_json
from bertscope.cli.views.probe import document, print_probe
from bertscope.cli.views.progress import studying
from bertscope.cli.views.table_files import require_table, write_files
from bertscope.plots.probes import save_probe
from bertscope.representations.kept_probes import KeptProbe
from bertscope.representations.probe_files import read_probe_texts
from bertscope.representations.probe_treebanks import ProbeTexts
from bertscope.representations.probes import ProbeProgress, ProbeResult, probe_columns

T = TypeVar("T")


@grouped
def probe(
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
    layer: Annotated[
        list[str] | None,
        typer.Option("--layer", "--layers", metavar="L[,L]", help="0 the embeddings, k after layer k - 1; all unless set."),
    ] = None,
    pooling: Annotated[
        Literal["mean", "first", "last"], typer.Option("--pooling", help="How a word's pieces become one vector.")
    ] = "mean",
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
    limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Take each file's first N.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Write a row for each layer: .csv, .tsv, .jsonl, .parquet.")
    ] = None,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw it: .png, .svg or .pdf.")] = None,
    dark: Annotated[bool, typer.Option("--dark", help="With --plot: draw on a dark page.")] = False,
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="FILE", help="Keep the probes for `bertscope apply-probe`: a file, .npz.")
    ] = None,
    truncate: options.Truncate = False,
    model: options.ModelName = None,
    timeout: options.LongTimeout = None,
    json: options.Json = False,
) -> None:
    """Train a probe on each layer, beside a control task, to see where a label of words can be read out."""
    if dark and plot is None:
        raise UsageError("--dark goes with --plot")
    output_files.require_plot(plot)
    require_table(output)
    parts = [
        ProbeTexts() if path is None else readable(path, partial(read_probe_texts, path, label, limit=limit))
        for path in (file, dev, test)
    ]
    with server.connect(timeout) as client, studying() as show:

        def on_progress(event: ProbeProgress) -> None:
            show("running the texts" if event.stage == "states" else "training", event.done, event.total)

        found = client.train_probe(
            parts[0],
            dev=parts[1],
            test=parts[2],
            model=model,
            layers=None if layer is None else specifications.numbers("--layer", layer),
            pooling=pooling,
            l2=l2,
            max_epochs=epochs,
            ending=ending,
            hidden_units=hidden_units,
            mix=mix,
            seeds=seeds,
            seed=seed,
            weights=keep is not None,
            truncate=truncate,
            interventions=base.interventions(),
            reference_texts=base.reference_texts(),
            on_progress=on_progress,
            timeout=timeout,
        )
    written = write_files(probe_columns(found), output, plot, lambda path: save_probe(found, path, dark=dark))
    if keep is not None:
        written.append(_keep(found, keep))
    if json:
        print_json(document(found))
        return
    screen = console()
    print_probe(screen, found, [problem for part in parts if part for problem in part.problems])
    for path in written:
        screen.print(f"wrote {path}", soft_wrap=True)


def readable(path: Path, read: Callable[[], T]) -> T:
    """Returns what `read` reads from a file. Raises Failure for a file that can't be read."""
    try:
        return read()
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror}") from error


def _keep(found: ProbeResult, path: Path) -> Path:
    try:
        KeptProbe.of(found).save(path)
    except OSError as error:
        raise Failure(f"cannot write {path}: {error.strerror}") from error
    return path
