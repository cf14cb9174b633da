"""Show and empty the cache of exported graphs on this machine (bertscope cache --help)."""

import importlib

import typer

from bertscope_workbench.command.commands.serve import SERVICE, SETTINGS, require_service

__all__ = ["SETTINGS", "cache"]


def cache(context: typer.Context) -> None:
    require_service("cache")
    raise typer.Exit(importlib.import_module(f"{SERVICE}.cache_command").run(list(context.args)))
