"""`bertscope serve` and `bertscope demo`: they need the server, which is a separate distribution."""

import importlib
import importlib.util
from typing import Annotated

import typer

from bertscope.cli.views.output import print_failure

SERVICE = "bertscope_service"
PASS_THROUGH = {"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}


def serve(context: typer.Context) -> None:
    """Run a server; all arguments go to it (bertscope serve --help lists them)."""
    _require_service("serve")
    entry = importlib.import_module(f"{SERVICE}.__main__")
    raise typer.Exit(entry.run(list(context.args)))


def demo(
    timeout: Annotated[
        float, typer.Option("--timeout", min=1, metavar="SECONDS", help="How long the server may take to start.")
    ] = 120,
) -> None:
    """Start a server, show what it can do, and stop it."""
    _require_service("demo")
    from bertscope.cli.commands import demo as demonstration

    raise typer.Exit(demonstration.run(timeout))


def _require_service(command: str) -> None:
    if importlib.util.find_spec(SERVICE) is None:
        print_failure(f"bertscope {command} needs the server (bertscope-service): in a checkout, pip install . ./service")
        raise typer.Exit(1)
