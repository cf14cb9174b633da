"""`bertscope code-length`: how many bits labels take, given the states of each layer."""

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from bertscope.cli import options
from bertscope.cli.commands.probe import readable
from bertscope.cli.options import specifications
from bertscope.cli.options.groups import grouped
from bertscope.cli.options.interventions import InterventionOptions
from bertscope.cli.options.server import ServerOptions
from bertscope.cli.views import files as output_files
from bertscope.cli.views.code_length import document, print_code_lengths
from bertscope.cli.views.output import UsageError, console, print_json
from bertscope.cli.views.progress import studying
from bertscope.cli.views.table_files import require_table, write_files
from bertscope.plots.code_length import save_code_length
from bertscope.representations.code_length import CodeLengthProgress, code_columns
from bertscope.representations.probe_files import read_probe_texts
from bertscope.representations.probe_treebanks import ProbeTexts


@grouped
def code_length(
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
    layer: Annotated[
        list[str] | None,
        typer.Option("--layer", "--layers", metavar="L[,L]", help="0 the embeddings, k after layer k - 1; all unless set."),
    ] = None,
    pooling: Annotated[
        Literal["mean", "first", "last"], typer.Option("--pooling", help="How a word's pieces become one vector.")
    ] = "mean",
    l2: Annotated[float | None, typer.Option("--l2", metavar="X", help="Penalty of weights, 1 / C; 1 unless set.")] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Shuffles the sentences.")] = 0,
    limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Take each file's first N.")] = None,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw it: .png, .svg or .pdf.")] = None,
    dark: Annotated[bool, typer.Option("--dark", help="With --plot: draw on a dark page.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Write a row for each layer: .csv, .tsv, .jsonl, .parquet.")
    ] = None,
    truncate: options.Truncate = False,
    model: options.ModelName = None,
    timeout: options.LongTimeout = None,
    json: options.Json = False,
) -> None:
    """Measure how many bits the labels of words take, given each layer's states: a short code is a label that is easy to read.

    Minimum description length by online coding (Voita and Titov 2020).
    """
    output_files.require_plot(plot)
    require_table(output)
    if dark and plot is None:
        raise UsageError("--dark goes with --plot")
    texts, held = (
        ProbeTexts() if path is None else readable(path, partial(read_probe_texts, path, label, limit=limit))
        for path in (file, dev)
    )
    with server.connect(timeout) as client, studying() as show:

        def on_progress(event: CodeLengthProgress) -> None:
            show("coding", event.done, event.total)

        found = client.measure_code_length(
            texts,
            dev=held,
            model=model,
            layers=None if layer is None else specifications.numbers("--layer", layer),
            pooling=pooling,
            l2=l2,
            seed=seed,
            truncate=truncate,
            interventions=base.interventions(),
            reference_texts=base.reference_texts(),
            on_progress=on_progress,
            timeout=timeout,
        )
    written = write_files(code_columns(found), output, plot, lambda path: save_code_length(found, path, dark=dark))
    if json:
        print_json(document(found))
        return
    screen = console()
    print_code_lengths(screen, found)
    for path in written:
        screen.print(f"wrote {path}", soft_wrap=True)
