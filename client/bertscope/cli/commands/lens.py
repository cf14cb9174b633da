"""`bertscope lens`: what a model would predict at every layer."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from bertscope.choices import LensNormalisation
from bertscope.cli import options
from bertscope.cli.options import specifications
from bertscope.cli.options.groups import grouped
from bertscope.cli.options.interventions import InterventionOptions
from bertscope.cli.options.server import ServerOptions
from bertscope.cli.views import files as output_files
from bertscope.cli.views.lens import document, print_lens
from bertscope.cli.views.output import UsageError, console, print_json
from bertscope.cli.views.table_files import require_table, write_files
from bertscope.plots.lens import save_lens
from bertscope.representations.lens import lens_columns


@grouped
def lens(
    server: ServerOptions,
    base: InterventionOptions,
    text: Annotated[str, typer.Argument(metavar="TEXT", help='The text, with "[MASK]" unless --all-pieces is set.')],
    pair: Annotated[str | None, typer.Option("--pair", metavar="TEXT", help="A second text, read with it.")] = None,
    layer: Annotated[
        list[str] | None,
        typer.Option(
            "--layer", "--layers", metavar="L[,L]", help="States: 0 the embeddings, k after layer k - 1; all unless set."
        ),
    ] = None,
    top_k: Annotated[
        int | None, typer.Option("--top-k", "-k", min=1, help="How many predictions at each layer; 5 unless set.")
    ] = None,
    candidates: Annotated[
        str | None,
        typer.Option(
            "--candidates", "--answers", metavar="A,B", help="Words to follow through the layers, with commas between."
        ),
    ] = None,
    all_pieces: Annotated[bool, typer.Option("--all-pieces", help="Read every piece, not only masks.")] = False,
    normalisation: Annotated[
        Literal["none", "final"] | None,
        typer.Option("--normalisation", help="Read states as they are, or after the model's last normalisation."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="Write a row for each position and layer: .csv, .tsv, .jsonl, .parquet."),
    ] = None,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw it: .png, .svg or .pdf.")] = None,
    dark: Annotated[bool, typer.Option("--dark", help="With --plot: draw on a dark page.")] = False,
    truncate: options.Truncate = False,
    model: options.ModelName = None,
    timeout: options.Timeout = options.TIMEOUT,
    json: options.Json = False,
) -> None:
    """Show what a model would predict at every layer: "Paris is the capital of [MASK]." """
    if dark and plot is None:
        raise UsageError("--dark goes with --plot")
    output_files.require_plot(plot)
    require_table(output)
    chosen: LensNormalisation | None = normalisation
    with server.connect(timeout) as client:
        found = client.read_layers(
            text if pair is None else (text, pair),
            model=model,
            layers=specifications.numbers("--layer", layer),
            top_k=top_k,
            candidates=None if candidates is None else specifications.words("--candidates", candidates),
            all_pieces=all_pieces,
            normalisation=chosen,
            interventions=base.interventions(),
            reference_texts=base.reference_texts(),
            truncate=truncate,
            timeout=timeout,
        )
    written = write_files(lens_columns(found), output, plot, lambda path: save_lens(found[0], path, dark=dark))
    if json:
        print_json(document(found))
        return
    screen = console()
    print_lens(screen, found[0])
    for path in written:
        screen.print(f"wrote {path}", soft_wrap=True)
