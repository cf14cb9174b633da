"""`bertscope structural-probe`: whether the layers of a model hold trees."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from bertscope.cli import options
from bertscope.cli.options import specifications
from bertscope.cli.options.groups import grouped
from bertscope.cli.options.interventions import InterventionOptions
from bertscope.cli.options.server import ServerOptions
from bertscope.cli.views import files as output_files
from bertscope.cli.views.output import Failure, UsageError, console, print_json
from bertscope.cli.views.progress import studying
from bertscope.cli.views.structural_probe import document, print_structural_probe
from bertscope.cli.views.table_files import require_table, write_files
from bertscope.plots.structural_probes import save_structural_probe
from bertscope.representations.structural_probes import StructuralProbeProgress, structural_columns
from bertscope.representations.tree_texts import TreeTexts, read_tree_conllu


@grouped
def structural_probe(
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
    layer: Annotated[
        list[str] | None,
        typer.Option("--layer", "--layers", metavar="L[,L]", help="0 the embeddings, k after layer k - 1; all unless set."),
    ] = None,
    pooling: Annotated[
        Literal["mean", "first", "last"], typer.Option("--pooling", help="How a word's pieces become one vector.")
    ] = "mean",
    epochs: Annotated[int | None, typer.Option("--epochs", min=1, help="Most passes over TRAIN; 40 unless set.")] = None,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Probes of each layer that differ in their seed.")] = 1,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The first seed.")] = 0,
    limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Take each file's first N.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Write a row for each layer: .csv, .tsv, .jsonl, .parquet.")
    ] = None,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw it: .png, .svg or .pdf.")] = None,
    dark: Annotated[bool, typer.Option("--dark", help="With --plot: draw on a dark page.")] = False,
    truncate: options.Truncate = False,
    model: options.ModelName = None,
    timeout: options.LongTimeout = None,
    json: options.Json = False,
) -> None:
    """Train a structural probe on each layer, to see whether distances between its states are those in a sentence's tree."""
    if dark and plot is None:
        raise UsageError("--dark goes with --plot")
    output_files.require_plot(plot)
    require_table(output)
    parts = [TreeTexts() if path is None else read(path, limit) for path in (file, dev, test)]
    with server.connect(timeout) as client, studying() as show:

        def on_progress(event: StructuralProbeProgress) -> None:
            show("running the texts" if event.stage == "states" else "training", event.done, event.total)

        found = client.train_structural_probe(
            parts[0],
            quantity=quantity,
            dev=parts[1],
            test=parts[2],
            model=model,
            layers=None if layer is None else specifications.numbers("--layer", layer),
            rank=rank,
            pooling=pooling,
            max_epochs=epochs,
            seeds=seeds,
            seed=seed,
            truncate=truncate,
            interventions=base.interventions(),
            reference_texts=base.reference_texts(),
            on_progress=on_progress,
            timeout=timeout,
        )
    written = write_files(structural_columns(found), output, plot, lambda path: save_structural_probe(found, path, dark=dark))
    if json:
        print_json(document(found))
        return
    screen = console()
    print_structural_probe(screen, found, [problem for part in parts if part for problem in part.problems])
    for path in written:
        screen.print(f"wrote {path}", soft_wrap=True)


def read(path: Path, limit: int | None) -> TreeTexts:
    """Reads a treebank. Raises Failure for a file that can't be read."""
    try:
        return read_tree_conllu(path, limit=limit)
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror}") from error
