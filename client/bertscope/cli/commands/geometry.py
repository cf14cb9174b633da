"""`bertscope geometry`: where the hidden states of each layer lie, over many texts."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bertscope.cli import options
from bertscope.cli.commands.neighbours import NeighbourOptions, find_neighbours
from bertscope.cli.options import specifications
from bertscope.cli.options.describing import TextFileOptions
from bertscope.cli.options.groups import grouped
from bertscope.cli.options.interventions import InterventionOptions
from bertscope.cli.options.server import ServerOptions
from bertscope.cli.views import files as output_files
from bertscope.cli.views.geometry import print_geometry
from bertscope.cli.views.neighbours import print_variance
from bertscope.cli.views.output import UsageError, console, print_json
from bertscope.cli.views.progress import answering
from bertscope.cli.views.table_files import require_table, write_files
from bertscope.plots.geometry import save_geometry
from bertscope.representations.geometry import document, frequent_words, geometry_columns, word_columns
from bertscope.representations.variances import variance_document


@grouped
def geometry(
    server: ServerOptions,
    base: InterventionOptions,
    file: TextFileOptions,
    around: NeighbourOptions,
    text: Annotated[list[str] | None, typer.Argument(metavar="[TEXT]...", help="Texts, or lines of stdin.")] = None,
    layer: Annotated[
        list[str] | None, typer.Option("--layer", metavar="L[,L]", help="Layers, from 0, the embeddings; all unless set.")
    ] = None,
    pieces: Annotated[bool, typer.Option("--pieces", help="A vector for each piece, and not for each word.")] = False,
    special: Annotated[bool, typer.Option("--special", help="Special tokens have vectors too.")] = False,
    word: Annotated[
        list[str] | None, typer.Option("--word", metavar="WORD", help="Show how alike this word's vectors are. Repeatable.")
    ] = None,
    frequent: Annotated[
        int | None, typer.Option("--frequent", min=1, metavar="N", help="The same of the N most frequent words of the texts.")
    ] = None,
    rank: Annotated[bool, typer.Option("--rank", help="Also the share of the first direction and the effective rank.")] = False,
    variance: Annotated[
        bool, typer.Option("--variance", help="Also how well one vector could stand for each word of --word and --frequent.")
    ] = False,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw it: .png, .svg or .pdf.")] = None,
    dark: Annotated[bool, typer.Option("--dark", help="With --plot: draw on a dark page.")] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="Write each layer's numbers: .csv, .tsv, .jsonl or .parquet."),
    ] = None,
    word_output: Annotated[
        Path | None, typer.Option("--word-output", metavar="FILE", help="Write a row for each word and layer, likewise.")
    ] = None,
    truncate: options.Truncate = False,
    model: options.ModelName = None,
    timeout: options.Timeout = options.TIMEOUT,
    json: options.Json = False,
) -> None:
    """Show how alike the vectors of words are in each layer: of all words, of one text, of one word in different texts."""
    output_files.require_plot(plot)
    require_table(output)
    require_table(word_output)
    if dark and plot is None:
        raise UsageError("--dark goes with --plot")
    words = {"--word": word, "--frequent": frequent}
    vectors = {"--pieces": pieces, "--special": special, "--rank": rank, "--variance": variance}
    around.require_alone({**words, **vectors, "--plot": plot, "--word-output": word_output})
    for option, value in {"--word-output": word_output, "--variance": variance}.items():
        if value and not any(words.values()):
            raise UsageError(f"{option} goes with --word or --frequent")
    if variance and (pieces or special):
        raise UsageError("--variance does not go with --pieces or --special")
    source = file.source(text or [])
    arguments: dict[str, Any] = {
        "model": model,
        "layers": specifications.numbers("--layer", layer),
        "interventions": base.interventions(),
        "reference_texts": base.reference_texts(),
        "truncate": truncate,
    }
    if around.neighbours:
        find_neighbours(server, around, source, output, timeout, json=json, **arguments)
        return
    named = [*(word or []), *(frequent_words(source.items, frequent) if frequent else [])]
    named = list({name.casefold(): name for name in named}.values())
    with server.connect(timeout) as client, source.some_left(), answering("describing") as show:
        found = client.describe_geometry(
            source.items,
            pieces=pieces,
            special_tokens=special,
            words=named,
            second_moments=rank,
            on_progress=show,
            on_rejected=source.reject,
            timeout=timeout,
            **arguments,
        )
        # Texts that were rejected before are rejected again, and told about once.
        variances = (
            client.explainable_variance(source.items, named, on_rejected=lambda index, error: None, **arguments)
            if variance
            else None
        )
    written = write_files(geometry_columns(found), output, plot, lambda path: save_geometry(found, path, dark=dark))
    if word_output is not None:
        written += write_files(word_columns(found), word_output, None, lambda _: None)
    if json:
        added = {} if variances is None else {"explainable_variance": variance_document(variances)}
        print_json(document(found) | added | {"left_out": source.left_out})
        return
    screen = console()
    source.print_left_out(screen)
    print_geometry(screen, found)
    if variances is not None:
        print_variance(screen, variances)
    for path in written:
        screen.print(f"wrote {path}", soft_wrap=True)
