"""Reads tables of TOML: each key is taken once, and an error names the file, the table, the key and the remedy."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

from bertscope import InvalidArgument
from bertscope.errors import invalid_argument
from bertscope.values.display import record


@record
class Keys:
    """The keys of one table of a file. `take` removes them; what is left is an error."""

    file: str
    where: str
    values: dict[str, Any]

    def take(self, key: str, kind: type, default: Any = None, *, wanted: str = "") -> Any:
        """Returns the value of a key. Raises InvalidArgument if it is missing without a default, or of another type."""
        if key not in self.values:
            if default is None:
                raise self.error(key, f"is missing; write {wanted or example(key, kind)}")
            return default
        value = self.values.pop(key)
        right = isinstance(value, kind) and not (isinstance(value, bool) and kind is not bool)
        if kind is float and type(value) is int and abs(value) <= sys.float_info.max:
            value, right = float(value), True
        if not right or (kind in (str, list) and not value):
            raise self.error(key, f"must be {wanted or example(key, kind)}")
        return value

    def number(
        self, key: str, kind: type, default: float | None = None, *, low: float = -math.inf, high: float = math.inf
    ) -> Any:
        """Returns a finite number within these bounds."""
        value = self.take(key, kind, default)
        if not math.isfinite(value) or not low <= value <= high:
            ends = [f"{word} {end:g}" for word, end in (("from", low), ("to", high)) if math.isfinite(end)]
            raise self.error(key, f"is {value:g}; write {' '.join(['a number', *ends])}")
        return value

    def texts(self, key: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """Returns a list of texts; one text stands for a list of one."""
        if isinstance(self.values.get(key), str):
            return (self.take(key, str),)
        values = self.take(key, list, default)
        if not all(isinstance(value, str) and value for value in values):
            raise self.error(key, f"must be a list of texts, {example(key, list)}")
        return tuple(values)

    def choice(self, key: str, choices: Mapping[str, Any] | tuple[str, ...], default: str | None = None) -> str:
        """Returns one of some words."""
        known = ", ".join(choices)
        value: str = self.take(key, str, default, wanted=f'{key} = "..." with one of {known}')
        if value not in choices:
            raise self.error(key, f"{value!r} is not known; write one of {known}")
        return value

    def tables(self, key: str, *, above: str = "") -> list[Keys]:
        """Returns the keys of each of some tables [[key]], none if there are none; `above` is the table that they are in."""
        tables = self.take(key, list, [])
        if not all(isinstance(table, dict) for table in tables):
            raise self.error(key, f"must be tables; write [[{above}{key}]] above each")
        return [Keys(self.file, f"{self.where}{key} {number}, ", table) for number, table in enumerate(tables, start=1)]

    def error(self, key: str, why: str) -> InvalidArgument:
        """Returns the error of a key."""
        return invalid_argument(f"{self.file}: {self.where}{key}", why)

    def done(self) -> None:
        """Raises InvalidArgument for keys that nobody took."""
        for key in self.values:
            raise self.error(key, "is not a key that is read here; take it out or mend its name")


def example(key: str, kind: type) -> str:
    """Returns how a key is written."""
    return (
        f"{key} = "
        + {str: '"..."', list: '["...", "..."]', bool: "true or false", float: "0.5", int: "100", dict: "{...}"}[kind]
    )
