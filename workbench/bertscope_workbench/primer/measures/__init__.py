"""Measures claims: functions that ask the server and return a `Measured`, by the names that claims give them.

A measure takes an `Asking` and, by keyword, the options of its test; it raises NotAsked for what can't be asked.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module

from bertscope_workbench.primer.estimates import Measured

Measure = Callable[..., Measured]


def find_measure(name: str) -> Measure | None:
    """Returns the measure "module.function"; None if there is none."""
    module, _, function = name.partition(".")
    if not (module.isidentifier() and function.isidentifier()) or function.startswith("_"):
        return None
    try:
        found = getattr(import_module(f"{__name__}.{module}"), function, None)
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{module}":
            raise
        return None
    of_module = inspect.isfunction(found) and found.__module__ == f"{__name__}.{module}"
    return found if of_module else None


def options_of(measure: Measure) -> dict[str, inspect.Parameter]:
    """Returns the options that a measure takes, by name."""
    _, *options = inspect.signature(measure).parameters.values()
    return {option.name: option for option in options}
