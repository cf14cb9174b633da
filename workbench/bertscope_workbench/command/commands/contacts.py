"""Find the heads of a protein model that attend to contacts: residues apart in the sequence that touch in the structure.

The share of a head is that of the pairs with attention over the threshold that are in contact (Vig et al. 2021).
"""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from bertscope import read_contacts
from bertscope.questions.attention.contacts import DISTANCE, MIN_SEPARATION, THRESHOLD

from bertscope_workbench.command import options
from bertscope_workbench.command.options.groups import Offered, grouped
from bertscope_workbench.command.options.interventions import InterventionOptions
from bertscope_workbench.command.options.results import OutputOptions, print_result
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.views import contacts as view


@grouped
def contacts(
    *,
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
    out: Annotated[OutputOptions, Offered("output", output="Write a row for each head: .csv, .tsv, .jsonl, .parquet.")],
    call: Annotated[options.CallOptions, Offered("model", "timeout", "json")],
) -> None:
    with server.connect(call.timeout) as client:
        found = client.score_contacts(
            sequence,
            read_contacts(file, distance=distance),
            threshold=threshold,
            min_separation=min_separation,
            model=call.model,
            **base.arguments(),
        )
    written = out.write(found.columns())
    print_result(found, view.document, partial(view.print_contacts, top=top), json=call.json, written=written)
