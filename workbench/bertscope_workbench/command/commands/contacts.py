"""Find the heads of a protein model that attend to contacts: residues apart in the sequence that touch in the structure.

The share of a head is that of the pairs with attention over the threshold that are in contact (Vig et al. 2021).

Example:

  bertscope contacts MKTAYIAKQRQISFVKSHFSRQLEERLGLIEVQ distances.npy --output heads.csv
"""

from functools import partial
from pathlib import Path
from typing import Any

from bertscope.values.documents import fields_of
from rich.console import Console

from bertscope_workbench.analyses.contacts import (
    DISTANCE,
    MIN_SEPARATION,
    THRESHOLD,
    ContactScores,
    read_contacts,
    score_contacts,
)
from bertscope_workbench.command import options
from bertscope_workbench.command.groups import argument, offered, option
from bertscope_workbench.command.options.interventions import ModelOptions
from bertscope_workbench.command.options.results import OutputOptions, print_result
from bertscope_workbench.command.views.output import plural
from bertscope_workbench.command.views.result_tables import result_table


def contacts(
    *,
    to: ModelOptions,
    sequence: str = argument("SEQUENCE", "A protein in one-letter codes."),
    file: Path = argument("FILE", "Its contacts (0 and 1) or distances, a matrix: .npy, .csv or .tsv."),
    distance: float = option("--distance ANGSTROM", "Residues less far apart touch, if FILE has distances.", default=DISTANCE),
    threshold: float = option("--threshold WEIGHT", "A weight over it counts as attention.", default=THRESHOLD),
    min_separation: int = option(
        "--min-separation N", "Leave out pairs nearer in the sequence.", default=MIN_SEPARATION, min=1
    ),
    top: int = option("--top N", "Heads to print.", default=10, min=1),
    out: OutputOptions = offered("output", output="Write a row for each head: .csv, .tsv, .jsonl, .parquet, .tex."),
    call: options.CallOptions = offered("model", "timeout", "json"),
) -> None:
    with to.connect(call.timeout) as client:
        found = score_contacts(
            client,
            sequence,
            read_contacts(file, distance=distance),
            threshold=threshold,
            min_separation=min_separation,
            model=call.model,
            **to.arguments(),
        )
    written = out.write(found)
    print_result(found, document, partial(print_contacts, top=top), json=call.json, written=written)


def document(found: ContactScores) -> dict[str, Any]:
    """Returns the scores in JSON types; a head without an attended pair has no share."""
    return fields_of(found, "provenance", "sequence", "threshold", "min_separation", "base_rate") | {**found.columns()}


def print_contacts(screen: Console, found: ContactScores, top: int) -> None:
    """Prints the heads with the highest shares, and what chance would give."""
    records = {(row["layer"], row["head"]): row for row in found.records()}
    best = [records[place] for place in found.best(top)]
    if best:
        screen.print(result_table(found, rows=best))
    else:
        screen.print(f"no head has a weight over {found.threshold:g} between such residues; lower --threshold")
    screen.print(
        f"{found.base_rate:.1%} of the pairs of {plural(len(found.sequence), 'residue')} at least {found.min_separation} apart "
        f"are in contact; attended is a weight over {found.threshold:g}"
    )
    screen.print("these heads are chosen on the sequence that they are scored on: in others they attend less", style="dim")
    screen.print(found.provenance.model, style="dim")
