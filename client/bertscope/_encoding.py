"""Checks of Python values that protobuf would refuse without naming the field, or would take for something else.

What can be encoded is left to the server to judge, so that there is one place that knows the limits.
"""

import math
import operator
from collections.abc import Iterable, Mapping
from typing import SupportsIndex, TypeVar

import numpy as np

from bertscope.errors import invalid_argument

T = TypeVar("T")

UINT32_MAX = 2**32 - 1


def text(field: str, value: object) -> str:
    """A string that UTF-8 can carry."""
    if not isinstance(value, str):
        raise invalid_argument(field, f"must be a string, not {_kind(value)}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise invalid_argument(field, f"cannot be encoded as UTF-8: lone surrogate at character {error.start}") from None
    return value


def texts(field: str, values: str | Iterable[str]) -> list[str]:
    """One string or many."""
    if isinstance(values, str):
        return [text(field, values)]
    return [text(f"{field}[{index}]", value) for index, value in enumerate(many(field, values, "strings"))]


def uint32(field: str, value: object) -> int:
    """A whole number from 0 to 2**32 - 1; numpy's integers count, booleans don't."""
    try:
        if isinstance(value, bool):
            raise TypeError
        result = operator.index(value)  # type: ignore[arg-type]  # raises TypeError for what is no integer
    except TypeError:
        raise invalid_argument(field, f"must be an integer, not {_kind(value)}") from None
    if not 0 <= result <= UINT32_MAX:
        raise invalid_argument(field, f"must be 0 to {UINT32_MAX}, not {result}")
    return result


def uint32s(field: str, values: SupportsIndex | Iterable[SupportsIndex] | None) -> list[int]:
    """One number, many, or None for all; an empty list is refused because the wire takes it for all."""
    if values is None:
        return []
    try:
        operator.index(values)  # type: ignore[arg-type]  # raises TypeError for what is no integer
    except TypeError:
        items = many(field, values, "integers")
        return not_empty(field, [uint32(f"{field}[{index}]", value) for index, value in enumerate(items)])
    return [uint32(field, values)]


def heads_or_all(field: str, values: SupportsIndex | Iterable[SupportsIndex] | None) -> tuple[int, ...] | None:
    """One head, many, or None for all."""
    return None if values is None else tuple(uint32s(field, values))


def not_empty(field: str, values: list[T]) -> list[T]:
    """The list, unless it is empty: the wire does not tell an empty list from none given."""
    if not values:
        raise invalid_argument(field, "is empty; leave it out to mean no restriction")
    return values


def number(field: str, value: object) -> float:
    """A real number, infinite ones and NaN among them; numpy's numbers count, booleans don't."""
    try:
        if isinstance(value, (bool, np.bool_, str, bytes)):
            raise TypeError
        return float(value)  # type: ignore[arg-type]  # raises TypeError for what is no number
    except (TypeError, OverflowError, ValueError):
        raise invalid_argument(field, f"must be a number, not {_kind(value)}") from None


def finite_number(field: str, value: object) -> float:
    """A number that is neither infinite nor NaN."""
    result = number(field, value)
    if not math.isfinite(result):
        raise invalid_argument(field, f"must be finite, not {result}")
    return result


def flag(field: str, value: object) -> bool:
    """True or False, numpy's among them."""
    if not isinstance(value, (bool, np.bool_)):
        raise invalid_argument(field, f"must be True or False, not {_kind(value)}")
    return bool(value)


def choice(field: str, value: object, choices: Mapping[str, T]) -> T:
    """What a name stands for."""
    if isinstance(value, str) and value in choices:
        return choices[value]
    raise invalid_argument(field, f"must be one of {', '.join(choices)}, not {value!r}")


def many(field: str, values: object, wanted: str) -> Iterable[object]:
    """Something to iterate over that is not a string."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise invalid_argument(field, f"must be {wanted}, not {_kind(values)}")
    return values


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__
