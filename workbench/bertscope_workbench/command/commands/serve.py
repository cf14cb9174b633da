"""Run a server; all arguments go to it (bertscope serve --help lists them)."""

import importlib
import importlib.util

import typer

from bertscope_workbench.command.views.output import print_failure

SERVICE = "bertscope_service"
SETTINGS = {
    "context_settings": {"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False},
    "add_help_option": False,
}
"""The server reads all arguments by itself."""


def serve(context: typer.Context) -> None:
    require_service("serve")
    entry = importlib.import_module(f"{SERVICE}.__main__")
    raise typer.Exit(entry.run(list(context.args)))


def require_service(command: str) -> None:
    """Ends the command without the server, which is a separate distribution."""
    if importlib.util.find_spec(SERVICE) is None:
        print_failure(f"bertscope {command} needs the server (bertscope-service): in a checkout, pip install . ./service")
        raise typer.Exit(1)
