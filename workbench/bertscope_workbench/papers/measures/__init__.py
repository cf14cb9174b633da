"""Measures claims: functions that ask the server and return a `Measured`, by the names that claims give them.

A measure takes an `Asking` and, by keyword, the options of its test; it raises NotAsked for what can't be asked.
"""

import inspect
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from bertscope.values.display import record

from bertscope_workbench.papers.asking import Asking
from bertscope_workbench.papers.estimates import Measured

Measure = Callable[..., Measured]
LARGEST = 1e9
"""The largest number that an option takes."""


@record
class Between:
    """The numbers that an option takes: `Annotated[float, Between(0, 1)]`; an option of some words is annotated with these."""

    low: float
    high: float = LARGEST

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}"


def find_measure(name: str) -> Measure | None:
    """Returns the measure "module.function"; None if there is none."""
    module, _, function = name.partition(".")
    if module not in _modules() or not function.isidentifier():
        return None
    found = getattr(import_module(f"{__name__}.{module}"), function, None)
    return found if _is_measure(found, module) else None


def measure_names() -> list[str]:
    """Returns the names of all measures."""
    return [
        f"{module}.{name}"
        for module in _modules()
        for name, found in vars(import_module(f"{__name__}.{module}")).items()
        if _is_measure(found, module)
    ]


def options_of(measure: Measure) -> dict[str, inspect.Parameter]:
    """Returns the options that a measure takes, by name, their types resolved."""
    _, *options = inspect.signature(measure, eval_str=True).parameters.values()
    return {option.name: option for option in options}


def unfit(value: object, wanted: Any) -> str | None:
    """Returns the type of an option in words if a value of TOML is not of it; None if it is."""
    origin, inner = get_origin(wanted), get_args(wanted)
    if origin is Annotated:
        kind, allowed = inner
        if (wrong := unfit(value, kind)) is not None or value in allowed:
            return wrong
        return str(allowed) if isinstance(allowed, Between) else f"one of {', '.join(map(repr, allowed))}"
    if origin is Literal:
        return None if value in inner else f"one of {', '.join(map(repr, inner))}"
    if origin in (Union, UnionType):
        every = [unfit(value, each) for each in inner if each is not type(None)]
        return None if None in every else " or ".join(filter(None, every))
    if origin is not None:
        (kind, *_) = inner or (str,)
        if not isinstance(value, list) or not value:
            return "a list of some"
        return next((f"a list of some, each {wrong}" for each in value if (wrong := unfit(each, kind)) is not None), None)
    kinds = (int, float) if wanted is float else (wanted,)
    fits = isinstance(value, kinds) and not (isinstance(value, bool) and wanted is not bool)
    if fits and isinstance(value, int | float) and not abs(value) <= LARGEST:
        return f"a number up to {LARGEST:g}"
    return None if fits else {bool: "true or false", int: "a whole number", float: "a number"}.get(wanted, "a text")


@cache
def _modules() -> tuple[str, ...]:
    return tuple(sorted(each.name for each in iter_modules(__path__)))


def _is_measure(found: object, module: str) -> bool:
    """Returns whether this is a function of the module that takes an `Asking` and returns a `Measured`."""
    if not inspect.isfunction(found) or found.__module__ != f"{__name__}.{module}" or found.__name__.startswith("_"):
        return False
    first = next(iter(inspect.signature(found).parameters.values()), None)
    types = inspect.get_annotations(found)
    return first is not None and types.get(first.name) is Asking and types.get("return") is Measured
