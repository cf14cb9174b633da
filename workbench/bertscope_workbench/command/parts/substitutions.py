"""`bertscope score --substitutions`: every substitution of a protein."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import typer
from bertscope import Substitutions
from rich.console import Console

from bertscope_workbench.command.options.results import PrintedOutputOptions, print_result
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.views import substitutions as view
from bertscope_workbench.command.views.output import UsageError
from bertscope_workbench.plots.substitutions import save_substitutions


@dataclass(frozen=True)
class SubstitutionOptions:
    """The protein whose substitutions are scored."""

    sequence: Annotated[
        str | None,
        typer.Option("--substitutions", metavar="SEQUENCE", help="Score every substitution of a protein, in one-letter codes."),
    ] = None


def score_substitutions(
    server: ServerOptions, sequence: str, out: PrintedOutputOptions, *, timeout: float, truncate: bool, **arguments: Any
) -> None:
    """Scores, writes files, and prints the likeliest and the unlikeliest substitutions."""
    if truncate:
        raise UsageError("--truncate does not go with --substitutions: a protein is scored whole")
    with server.connect(timeout) as client:
        found = client.score_substitutions(sequence, **arguments)
    written = out.write(found.columns(), partial(save_substitutions, found))

    def show(screen: Console, found: Substitutions) -> None:
        if out.output is None:
            view.print_substitutions(screen, found)

    print_result(found, view.document, show, json=out.json, written=written)
