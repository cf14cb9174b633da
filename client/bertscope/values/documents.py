"""Turns results into documents of JSON types."""

from __future__ import annotations

import dataclasses
import datetime
import math
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, get_type_hints

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


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
    return {name: document_of(value) for name, value in attributes(found, *names).items()}


def attributes(found: object, *names: str) -> dict[str, Any]:
    """Returns attributes of a result, as they are."""
    return {name: getattr(found, name) for name in names}


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
