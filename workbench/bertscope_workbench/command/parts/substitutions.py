"""`bertscope score substitutions`: every substitution of a protein."""

from functools import partial
from typing import Any

import numpy as np
from bertscope.values.documents import fields_of
from rich.console import Console

from bertscope_workbench.analyses.substitutions import Substitutions, score_substitutions
from bertscope_workbench.command import options
from bertscope_workbench.command.groups import argument, offered
from bertscope_workbench.command.options.interventions import ModelOptions
from bertscope_workbench.command.options.results import PrintedOutputOptions, print_result
from bertscope_workbench.command.views.output import plural, table, titled
from bertscope_workbench.plots.substitutions import save_substitutions

LEAST_SHOWN = 1e-4
"""The smallest probability that is written as a percentage."""

SHOWN = 10
"""The most substitutions in each of the two tables."""


def show_substitutions(
    *,
    to: ModelOptions,
    sequence: str = argument("SEQUENCE", "A protein, in one-letter codes."),
    out: PrintedOutputOptions,
    call: options.CallOptions = offered("model", "timeout"),
) -> None:
    """Score every substitution of a residue of a protein, by a model such as ESM-2.

    Example:

      bertscope score substitutions MKTAYIAKQRQISFVKSHFSRQLEERLGLIEVQ --plot map.png
    """
    with to.connect(call.timeout) as client:
        found = score_substitutions(client, sequence, model=call.model, **to.arguments())
    written = out.write(found, partial(save_substitutions, found))

    def show(screen: Console, found: Substitutions) -> None:
        if out.output is None:
            print_substitutions(screen, found)

    print_result(found, document, show, json=out.json, written=written)


def document(found: Substitutions) -> dict[str, Any]:
    """Returns the scores in JSON types."""
    return fields_of(found, "provenance", "sequence", "letters", "log_odds", "log_probabilities", "wild_type")


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
