"""Turns results into values that JSON has."""

import dataclasses
import datetime
import math
from collections.abc import Mapping
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """Returns the value as dicts, lists, strings, numbers, true, false and null: a dataclass as its fields, a time as ISO 8601,
    an array as nested lists, a number that is not finite as null.

    Raises TypeError for another type, rather than send what its `str` happens to be.
    """
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (datetime.datetime, datetime.date)):
        return value.isoformat()
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(one) for one in value]
    raise TypeError(f"{type(value).__name__} has no form in JSON")
