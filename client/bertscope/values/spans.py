"""Parts of texts, as the caller marks them."""

from __future__ import annotations

from typing import Any, NamedTuple

from bertscope.errors import invalid_argument
from bertscope.values import validation

__all__ = ["Span"]


class Span(NamedTuple):
    """A part of a text: code points, as Python counts them."""

    start: int
    """The first."""
    end: int
    """One past the last."""
    segment: int = 0
    """0 for the text, 1 for the second text of a pair."""


def span(field: str, value: object) -> Span:
    """Returns a part that was given as a tuple of two or three numbers."""
    found = parts(field, value, (2, 3), "(start, end) or (start, end, segment)")
    return Span(*(validation.uint32(field, part) for part in found))


def parts(field: str, value: object, sizes: tuple[int, ...], wanted: str) -> tuple[Any, ...]:
    """Returns the parts of a tuple or list of one of these sizes."""
    if not isinstance(value, (tuple, list)) or len(value) not in sizes:
        raise invalid_argument(field, f"must be a tuple {wanted}, not {value!r}")
    return tuple(value)
