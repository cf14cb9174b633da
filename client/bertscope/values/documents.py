"""Turns results into documents of JSON types."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any


def document_of(value: Any) -> Any:
    """Returns a value in JSON types: records as objects, by the names of their fields, arrays as lists, in tuples and mappings,
    too. Named tuples stay as they are."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return fields_of(value, *(field.name for field in dataclasses.fields(value)))
    if isinstance(value, Mapping):
        return {key: document_of(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return [document_of(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value


def fields_of(found: object, *names: str) -> dict[str, Any]:
    """Returns attributes of a result in JSON types."""
    return {name: document_of(getattr(found, name)) for name in names}
