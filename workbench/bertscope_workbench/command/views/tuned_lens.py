"""Formats how well a tuned lens reads each layer, as a table and as JSON."""

from typing import Any

from bertscope import TunedLens
from bertscope.questions.representations.tuned_lens import COLUMNS
from rich.console import Console

from bertscope_workbench.command.views.output import percent, printable, table, titled


def document(found: TunedLens) -> dict[str, Any]:
    """Returns the fits in JSON types, without the maps."""
    return {
        "model": found.model,
        "weights": found.weights_digest,
        "normalisation": found.normalisation,
        "numbering": found.numbering,
        "last_layer": found.last_layer,
        "layers": [dict(zip(COLUMNS, row, strict=True)) for row in found.rows()],
        "versions": dict(found.versions),
    }


def print_tuned_lens(screen: Console, found: TunedLens) -> None:
    """Prints a row for each layer: its divergence and agreement without and with the map, the last layer on top."""
    rows = table(["layer#", "KL without#", "KL with#", "agrees without#", "with#", "steps#"])
    for fit in reversed(found.fits):
        rows.add_row(
            str(fit.layer),
            f"{fit.divergence_before:.3f}",
            f"{fit.divergence:.3f}",
            percent(fit.agreement_before),
            percent(fit.agreement),
            str(fit.steps),
        )
    screen.print(titled("KL of the last layer to this one, nats, and the same likeliest entry, on the dev texts", rows))
    states = "as they are" if found.normalisation == "none" else "after the model's last normalisation"
    screen.print(printable(f"{found.model}; layer 0: the embeddings; mapped states are read {states}"), style="dim")
