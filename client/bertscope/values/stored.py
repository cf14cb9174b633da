"""Turns documents of JSON types, as `documents.document_of` makes them, into results again."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from itertools import repeat
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin

from bertscope.values import validation
from bertscope.values.documents import types_of

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Result = TypeVar("Result", bound="DataclassInstance")
CHECKS = {int: validation.uint64, float: validation.number, bool: validation.flag}
"""Checks of values in documents, by types of fields; all others are texts."""


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
