"""Formats attention to contacts as a table and as JSON."""

import dataclasses
from typing import Any

from bertscope import ContactScores
from rich.console import Console

from bertscope_workbench.command.views.output import plural, table


def document(found: ContactScores) -> dict[str, Any]:
    """Returns the scores in JSON types; a head without an attended pair has no share."""
    return {
        "provenance": dataclasses.asdict(found.provenance),
        "sequence": found.sequence,
        "threshold": found.threshold,
        "min_separation": found.min_separation,
        "base_rate": found.base_rate,
        **found.columns(),
    }


def print_contacts(screen: Console, found: ContactScores, top: int) -> None:
    """Prints the heads with the highest shares, and what chance would give."""
    result = table(("layer#", "head#", "in contact#", "attended pairs#", "weight on contacts#"))
    for layer, head in found.best(top):
        share, weight = found.share[layer, head], found.weight_share[layer, head]
        result.add_row(str(layer), str(head), f"{share:.1%}", str(found.attended[layer, head]), f"{weight:.1%}")
    if result.row_count:
        screen.print(result)
    else:
        screen.print(f"no head has a weight over {found.threshold:g} between such residues; lower --threshold")
    screen.print(
        f"{found.base_rate:.1%} of the pairs of {plural(len(found.sequence), 'residue')} at least {found.min_separation} apart "
        f"are in contact; attended is a weight over {found.threshold:g}"
    )
    screen.print("these heads are chosen on the sequence that they are scored on: in others they attend less", style="dim")
    screen.print(found.provenance.model, style="dim")
