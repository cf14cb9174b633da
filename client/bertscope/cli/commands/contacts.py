"""`bertscope contacts`: which heads of a protein model attend to residues that touch."""

from pathlib import Path
from typing import Annotated

import typer

from bertscope.attention.contacts import DISTANCE, MIN_SEPARATION, THRESHOLD, read_contacts
from bertscope.cli import options
from bertscope.cli.options.groups import grouped
from bertscope.cli.options.interventions import InterventionOptions
from bertscope.cli.options.server import ServerOptions
from bertscope.cli.views import contacts as view
from bertscope.cli.views.output import console, print_json
from bertscope.cli.views.table_files import write_table


@grouped
def contacts(
    server: ServerOptions,
    base: InterventionOptions,
    sequence: Annotated[str, typer.Argument(metavar="SEQUENCE", help="A protein in one-letter codes.")],
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Its contacts (0 and 1) or distances, a matrix: .npy, .csv or .tsv.")
    ],
    distance: Annotated[
        float, typer.Option("--distance", metavar="ANGSTROM", help="Residues less far apart touch, if FILE has distances.")
    ] = DISTANCE,
    threshold: Annotated[
        float, typer.Option("--threshold", metavar="WEIGHT", help="A weight over it counts as attention.")
    ] = THRESHOLD,
    min_separation: Annotated[
        int, typer.Option("--min-separation", min=1, metavar="N", help="Leave out pairs nearer in the sequence.")
    ] = MIN_SEPARATION,
    top: Annotated[int, typer.Option("--top", min=1, metavar="N", help="Heads to print.")] = 10,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Write a row for each head: .csv, .tsv, .jsonl, .parquet.")
    ] = None,
    model: options.ModelName = None,
    timeout: options.Timeout = options.TIMEOUT,
    json: options.Json = False,
) -> None:
    """Find the heads of a protein model that attend to contacts: residues apart in the sequence that touch in the structure.

    The share of a head is that of the pairs with attention over the threshold that are in contact (Vig et al. 2021).
    """
    with server.connect(timeout) as client:
        found = client.score_contacts(
            sequence,
            read_contacts(file, distance=distance),
            threshold=threshold,
            min_separation=min_separation,
            model=model,
            interventions=base.interventions(),
            reference_texts=base.reference_texts(),
        )
    if output is not None:
        columns = found.columns()
        write_table([*columns], zip(*columns.values(), strict=True), output)
    if json:
        print_json(view.document(found))
        return
    screen = console()
    view.print_contacts(screen, found, top)
    if output is not None:
        screen.print(f"wrote {output}", soft_wrap=True)
