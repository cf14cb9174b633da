"""`bertscope score --substitutions`: every substitution of a protein."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from bertscope.cli.options.server import ServerOptions
from bertscope.cli.views import substitutions as view
from bertscope.cli.views.output import UsageError, console, print_json
from bertscope.cli.views.table_files import write_files
from bertscope.plots.substitutions import save_substitutions


@dataclass(frozen=True)
class SubstitutionOptions:
    """The protein whose substitutions are scored."""

    sequence: Annotated[
        str | None,
        typer.Option("--substitutions", metavar="SEQUENCE", help="Score every substitution of a protein, in one-letter codes."),
    ] = None


@dataclass(frozen=True)
class SubstitutionFiles:
    """The files to write, and how to print."""

    plot: Path | None
    dark: bool
    output: Path | None
    json: bool


def score_substitutions(
    server: ServerOptions, sequence: str, files: SubstitutionFiles, *, timeout: float, truncate: bool, **arguments: Any
) -> None:
    """Scores, writes files, and prints the likeliest and the unlikeliest substitutions."""
    if truncate:
        raise UsageError("--truncate does not go with --substitutions: a protein is scored whole")
    with server.connect(timeout) as client:
        found = client.score_substitutions(sequence, **arguments)
    written = write_files(
        found.columns(), files.output, files.plot, lambda path: save_substitutions(found, path, dark=files.dark)
    )
    if files.json:
        print_json(view.document(found))
        return
    screen = console()
    if files.output is None:
        view.print_substitutions(screen, found)
    for path in written:
        screen.print(f"wrote {path}", soft_wrap=True)
