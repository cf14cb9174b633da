"""Turns results into documents of JSON types, and such documents into results."""

from __future__ import annotations

import dataclasses
import datetime
import math
from collections.abc import Mapping
from functools import cache
from itertools import repeat
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

from bertscope.values import validation

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Result = TypeVar("Result", bound="DataclassInstance")
CHECKS = {int: validation.uint64, float: validation.number, bool: validation.flag}
"""Checks of values in documents, by types of fields; all others are texts."""


def document_of(value: Any) -> Any:
    """Returns a value in JSON types: records as objects, by the names of their fields, arrays as lists, times as ISO 8601, in
    tuples and mappings, too. Named tuples stay as they are."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return fields_of(value, *(field.name for field in dataclasses.fields(value)))
    if isinstance(value, Mapping):
        return {key: document_of(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)) and not hasattr(value, "_fields"):
        return [document_of(item) for item in value]
    if isinstance(value, (datetime.datetime, datetime.date)):
        return value.isoformat()
    return value.tolist() if hasattr(value, "tolist") else value


def fields_of(found: object, *names: str) -> dict[str, Any]:
    """Returns attributes of a result in JSON types."""
    return {name: document_of(getattr(found, name)) for name in names}


def finite(value: Any) -> Any:
    """Returns a document without infinities and NaN, which JSON has not: they are None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    return [finite(item) for item in value] if isinstance(value, (list, tuple)) else value


@cache
def types_of(kind: type[DataclassInstance]) -> Mapping[str, Any]:
    """Returns the types of a dataclass's fields, by their names."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def stored(kind: type[Result], values: Any) -> Result:
    """Returns the result that `document_of` made a document of: the types of its fields say how they are read and checked.

    Other entries are left out, and a field with a default may lack. Raises InvalidArgument, naming the field, for a value of
    another type, and KeyError, TypeError or AttributeError for what is no such document.
    """
    types, missing = types_of(kind), dataclasses.MISSING
    needed = [one.name for one in dataclasses.fields(kind) if one.default is missing and one.default_factory is missing]
    return kind(**{name: _stored(name, types[name], values[name]) for name in types if name in values or name in needed})


def _stored(field: str, wanted: Any, value: Any) -> Any:
    origin, inside = get_origin(wanted), [kind for kind in get_args(wanted) if kind is not NoneType]
    if wanted is Any or (value is None and NoneType in get_args(wanted)):
        return value
    if isinstance(wanted, type) and dataclasses.is_dataclass(wanted):
        return stored(wanted, value)
    if origin is Mapping:
        key: Any = int if inside[0] is int else str
        return {key(name): _stored(field, inside[1], item) for name, item in value.items()}
    if origin is tuple:
        kinds = repeat(inside[0]) if inside[-1] is ... else inside
        return tuple(
            _stored(field, one, item) for one, item in zip(kinds, validation.many(field, value, "a list"), strict=False)
        )
    if inside and all(map(callable, inside)):  # one of several types, of which a list is the last
        return _stored(field, inside[-1 if isinstance(value, list) else 0], value)
    return CHECKS.get(wanted, validation.text)(field, value)
