"""Finds what lies in the workbench, which a client may lack."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

NEEDED = 'needs bertscope-workbench, the extra "workbench": in a checkout, pip install . ./workbench'


def of_workbench(name: str) -> Any:
    """Returns a public name of the workbench. Raises ImportError, which says what to install, without the workbench."""
    try:
        workbench = import_module("bertscope_workbench")
    except ModuleNotFoundError as error:
        if error.name != "bertscope_workbench":
            raise
        raise ImportError(f"{name} {NEEDED}", name=error.name) from error
    return getattr(workbench, name)


def has_workbench() -> bool:
    """Returns whether the workbench is installed."""
    return find_spec("bertscope_workbench") is not None
