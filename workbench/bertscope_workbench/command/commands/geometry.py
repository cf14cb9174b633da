"""Show how alike the vectors of words are in each layer: of all words, of one text, of one word in different texts."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from bertscope import GeometryDescription
from bertscope.questions.representations.geometry import document, frequent_words, geometry_columns, word_columns
from bertscope.questions.representations.variances import variance_document
from rich.console import Console

from bertscope_workbench.command import options
from bertscope_workbench.command.options import specifications
from bertscope_workbench.command.options.describing import TextFileOptions
from bertscope_workbench.command.options.groups import Offered, grouped
from bertscope_workbench.command.options.interventions import InterventionOptions
from bertscope_workbench.command.options.results import OutputOptions, print_result
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.parts.neighbours import NeighbourOptions, find_neighbours
from bertscope_workbench.command.views.geometry import print_geometry
from bertscope_workbench.command.views.neighbours import print_variance
from bertscope_workbench.command.views.output import UsageError
from bertscope_workbench.command.views.progress import answering
from bertscope_workbench.command.views.table_files import require_table
from bertscope_workbench.plots.geometry import save_geometry


@grouped
def geometry(
    *,
    server: ServerOptions,
    base: InterventionOptions,
    file: TextFileOptions,
    around: NeighbourOptions,
    layer: options.Layers = None,
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
    out: Annotated[OutputOptions, Offered(output="Write each layer's numbers: .csv, .tsv, .jsonl or .parquet.")],
    word_output: Annotated[
        Path | None, typer.Option("--word-output", metavar="FILE", help="Write a row for each word and layer, likewise.")
    ] = None,
    call: options.CallOptions,
) -> None:
    require_table(word_output)
    words = {"--word": word, "--frequent": frequent}
    vectors = {"--pieces": pieces, "--special": special, "--rank": rank, "--variance": variance}
    around.require_alone({**words, **vectors, "--plot": out.plot, "--word-output": word_output})
    for option, value in {"--word-output": word_output, "--variance": variance}.items():
        if value and not any(words.values()):
            raise UsageError(f"{option} goes with --word or --frequent")
    if variance and (pieces or special):
        raise UsageError("--variance does not go with --pieces or --special")
    source = file.source()
    arguments: dict[str, Any] = {
        "layers": specifications.numbers("--layer", layer),
        "model": call.model,
        "truncate": call.truncate,
        **base.arguments(),
    }
    if around.neighbours:
        find_neighbours(server, around, source, out, call, **arguments)
        return
    named = [*(word or []), *(frequent_words(source.items, frequent) if frequent else [])]
    named = list({name.casefold(): name for name in named}.values())
    with server.connect(call.timeout) as client, source.some_left(), answering("describing") as show:
        found = client.describe_geometry(
            source.items,
            pieces=pieces,
            special_tokens=special,
            words=named,
            second_moments=rank,
            on_progress=show,
            on_rejected=source.reject,
            timeout=call.timeout,
            **arguments,
        )
        # Texts that were rejected before are rejected again, and told about once.
        variances = (
            client.explainable_variance(source.items, named, on_rejected=lambda index, error: None, **arguments)
            if variance
            else None
        )
    written = out.write(geometry_columns(found), partial(save_geometry, found))
    if word_output is not None:
        written += OutputOptions(output=word_output).write(word_columns(found))
    added = {} if variances is None else {"explainable_variance": variance_document(variances)}

    def show_all(screen: Console, found: GeometryDescription) -> None:
        print_geometry(screen, found)
        if variances is not None:
            print_variance(screen, variances)

    print_result(found, lambda found: document(found) | added, show_all, json=call.json, written=written, source=source)
