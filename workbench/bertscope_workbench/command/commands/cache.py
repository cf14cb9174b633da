"""Show and empty the cache of exported graphs on this machine (bertscope cache --help)."""

import importlib

import typer

from bertscope_workbench.command.commands import serve as serving

SETTINGS = serving.SETTINGS
"""The server's program reads all arguments by itself."""


def cache(context: typer.Context) -> None:
    serving.require_service("cache")
    raise typer.Exit(importlib.import_module(f"{serving.SERVICE}.cache_command").run(list(context.args)))
