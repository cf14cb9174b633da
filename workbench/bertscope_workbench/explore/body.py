"""Reads the JSON bodies of questions: an unknown field, or one of another type, is an error that names it."""

from __future__ import annotations

import json
import sys
from typing import Any, TypeVar

from bertscope.errors import invalid_argument

Value = TypeVar("Value")


class Body:
    """The fields of a question, each read once. `done` refuses what nobody read."""

    def __init__(self, values: object, field: str = "body") -> None:
        if not isinstance(values, dict):
            raise invalid_argument(field, "must be a JSON object")
        self._values: dict[str, Any] = dict(values)

    @classmethod
    def parse(cls, raw: bytes) -> Body:
        """Reads a request's body. Raises InvalidArgument for what is no JSON object."""
        try:
            return cls(json.loads(raw))
        except (ValueError, RecursionError) as error:
            raise invalid_argument("body", "must be a JSON object") from error

    def text(self, name: str, default: str | None = None) -> str:
        """Returns a string; `default` if it is missing, unless that is None."""
        return self._value(name, str, "a string", default)

    def optional_text(self, name: str) -> str | None:
        """Returns a string, or None if it is missing, null or empty."""
        found = self._values.pop(name, None)
        if found is not None and not isinstance(found, str):
            raise invalid_argument(name, "must be a string")
        return found or None

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Returns true or false."""
        return self._value(name, bool, "true or false", default)

    def whole(self, name: str, default: int | None = None) -> int:
        """Returns a whole number."""
        found = self._value(name, int, "a whole number", default)
        if isinstance(found, bool):
            raise invalid_argument(name, "must be a whole number")
        return found

    def number(self, name: str, default: float | None = None) -> float:
        """Returns a finite number."""
        found = self._value(name, (int, float), "a number", default)
        if isinstance(found, bool) or not abs(found) <= sys.float_info.max:  # NaN is not, either.
            raise invalid_argument(name, "must be a finite number")
        return float(found)

    def texts(self, name: str) -> list[str]:
        """Returns a list of strings; empty if it is missing."""
        found = self._value(name, list, "a list of strings", [])
        if not all(isinstance(one, str) for one in found):
            raise invalid_argument(name, "must be a list of strings")
        return list(found)

    def names(self, name: str) -> dict[str, str]:
        """Returns an object of strings; empty if it is missing."""
        found = self._value(name, dict, "an object of strings", {})
        if not all(isinstance(one, str) for one in found.values()):
            raise invalid_argument(name, "must be an object of strings")
        return dict(found)

    def parts(self, name: str) -> list[Body]:
        """Returns a list of objects; empty if it is missing."""
        found = self._value(name, list, "a list of objects", [])
        return [Body(one, f"{name}[{index}]") for index, one in enumerate(found)]

    def wholes(self, name: str) -> list[int]:
        """Returns a list of whole numbers; empty if it is missing."""
        found = self._value(name, list, "a list of whole numbers", [])
        if not all(isinstance(one, int) and not isinstance(one, bool) for one in found):
            raise invalid_argument(name, "must be a list of whole numbers")
        return list(found)

    def done(self) -> None:
        """Raises InvalidArgument if there is a field that was not read."""
        for name in self._values:
            raise invalid_argument(str(name)[:100], "is not a field of this question")

    def _value(self, name: str, kind: type[Value] | tuple[type[Value], ...], wanted: str, default: Value | None) -> Value:
        found = self._values.pop(name, default)
        if not isinstance(found, kind):
            raise invalid_argument(name, f"must be {wanted}")
        return found
