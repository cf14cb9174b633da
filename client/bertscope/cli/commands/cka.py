"""`bertscope cka`: how alike the states of each two layers are, of one model or of two."""

from pathlib import Path
from typing import Annotated

import typer

from bertscope.cli import options
from bertscope.cli.options import specifications
from bertscope.cli.options.describing import TextFileOptions
from bertscope.cli.options.groups import grouped
from bertscope.cli.options.interventions import InterventionOptions
from bertscope.cli.options.server import ServerOptions
from bertscope.cli.views import files as output_files
from bertscope.cli.views.cka import print_representations
from bertscope.cli.views.output import UsageError, console, print_json
from bertscope.cli.views.progress import answering
from bertscope.cli.views.table_files import require_table, write_files
from bertscope.plots.representation_comparison import save_representations
from bertscope.representations.comparison import comparison_columns, comparison_document


@grouped
def cka(
    server: ServerOptions,
    base: InterventionOptions,
    file: TextFileOptions,
    text: Annotated[list[str] | None, typer.Argument(metavar="[TEXT]...", help="Texts, or lines of stdin.")] = None,
    compare: Annotated[
        str | None,
        typer.Option("--compare", metavar="MODEL", help="Compare with the layers of this model, under any interventions."),
    ] = None,
    layer: Annotated[
        list[str] | None, typer.Option("--layer", metavar="L[,L]", help="Layers, from 0, the embeddings; all unless set.")
    ] = None,
    other_layer: Annotated[
        list[str] | None, typer.Option("--other-layer", metavar="L[,L]", help="Likewise, of the second model.")
    ] = None,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw it: .png, .svg or .pdf.")] = None,
    dark: Annotated[bool, typer.Option("--dark", help="With --plot: draw on a dark page.")] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="Write a row for each two layers: .csv, .tsv, .jsonl or .parquet."),
    ] = None,
    truncate: options.Truncate = False,
    model: options.ModelName = None,
    timeout: options.Timeout = options.TIMEOUT,
    json: options.Json = False,
) -> None:
    """Show how alike the states of each two layers are, of one model or of two (linear CKA)."""
    output_files.require_plot(plot)
    require_table(output)
    if dark and plot is None:
        raise UsageError("--dark goes with --plot")
    source = file.source(text or [])
    with server.connect(timeout) as client, source.some_left(), answering("comparing") as show:
        found = client.compare_representations(
            source.items,
            compare,
            model=model,
            layers=specifications.numbers("--layer", layer),
            other_layers=specifications.numbers("--other-layer", other_layer),
            interventions=base.interventions(),
            reference_texts=base.reference_texts(),
            truncate=truncate,
            on_progress=show,
            on_rejected=source.reject,
            timeout=timeout,
        )
    written = write_files(comparison_columns(found), output, plot, lambda path: save_representations(found, path, dark=dark))
    if json:
        print_json(comparison_document(found) | {"left_out": source.left_out})
        return
    screen = console()
    source.print_left_out(screen)
    print_representations(screen, found)
    for path in written:
        screen.print(f"wrote {path}", soft_wrap=True)
