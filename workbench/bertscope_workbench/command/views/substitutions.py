"""Formats the scores of substitutions as tables and as JSON."""

import dataclasses
from typing import Any

import numpy as np
from bertscope import Substitutions
from rich.console import Console

from bertscope_workbench.command.views.output import plural, table, titled

LEAST_SHOWN = 1e-4
"""The smallest probability that is written as a percentage."""

SHOWN = 10
"""The most substitutions in each of the two tables."""


def document(found: Substitutions) -> dict[str, Any]:
    """Returns the scores in JSON types."""
    return {
        "provenance": dataclasses.asdict(found.provenance),
        "sequence": found.sequence,
        "letters": found.letters,
        "log_odds": found.log_odds.tolist(),
        "log_probabilities": found.log_probabilities.tolist(),
        "wild_type": found.wild_type.tolist(),
    }


def print_substitutions(screen: Console, found: Substitutions) -> None:
    """Prints the substitutions that the model finds likeliest and unlikeliest, and where it allows least."""
    columns = found.columns()
    order = np.argsort(columns["log_odds"], kind="stable")
    for heading, chosen in (("likeliest", order[::-1][:SHOWN]), ("unlikeliest", order[:SHOWN])):
        result = table(("substitution", "log-odds#", "probability#"))
        for index in chosen:
            probability = float(np.exp(columns["log_probability"][index]))
            share = f"{probability:.2%}" if probability >= LEAST_SHOWN else f"{probability:.0e}"
            result.add_row(columns["mutation"][index], f"{columns['log_odds'][index]:+.3f}", share)
        screen.print(titled(f"{heading} substitutions", result))
    means = np.nanmean(np.where(found.log_odds == 0, np.nan, found.log_odds), axis=0)
    least = int(means.argmin())
    screen.print(
        f"{plural(len(columns['mutation']), 'substitution')} of {plural(len(found.sequence), 'residue')}; least free: "
        f"{found.sequence[least]}{least + 1}, {means[least]:+.3f} on average"
    )
    screen.print(f"log-odds against the residue that is there, {found.provenance.model}", style="dim")
