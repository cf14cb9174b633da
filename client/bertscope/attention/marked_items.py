"""Defines the marked texts of a file, of which some could not be read."""

from __future__ import annotations

from typing import TypeVar

from bertscope.errors import InvalidArgument
from bertscope.files import Items

T = TypeVar("T")


class MarkedItems(Items[T]):
    """The texts read from a file, of which some could not be."""

    problems: list[InvalidArgument]
    """The texts that were left out: each error names the file and the line."""
