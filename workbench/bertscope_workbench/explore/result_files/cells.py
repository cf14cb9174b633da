"""Turns a value that a file may hold into one that JSON has, and that fits into a cell of the page's table."""

from __future__ import annotations

import decimal
import json
import math
from typing import Any

MAX_CHARACTERS = 1000
"""Characters of a cell; the rest is cut off."""
EXACT = 1 << 53
"""Whole numbers up to here are exact in a browser; others are shown as text."""


def cell(value: Any) -> Any:
    """Returns None, true, false, a finite number or a text of at most 1,000 characters: bytes as hexadecimal digits, a list or
    an object as JSON, dates and durations as ISO 8601 and Python write them, a number that is not finite as None."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) <= EXACT else _cut(str(value))
    if isinstance(value, (float, decimal.Decimal)):
        number = float(value)
        return number if math.isfinite(number) else None
    if isinstance(value, str):
        return _cut(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _cut("0x" + bytes(value[:MAX_CHARACTERS]).hex())
    if isinstance(value, (list, tuple, dict)):
        return _cut(json.dumps(cells(value), ensure_ascii=False))
    return _cut(value.isoformat() if hasattr(value, "isoformat") else str(value))


def cells(value: Any) -> Any:
    """Returns a document with each of its values as `cell` has it."""
    if isinstance(value, dict):
        return {str(name): cells(one) for name, one in value.items()}
    return [cells(one) for one in value] if isinstance(value, (list, tuple)) else cell(value)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else text[:MAX_CHARACTERS] + "…"
