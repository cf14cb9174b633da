"""Enums of the contract, and the values that stand for theirs in the service."""

from __future__ import annotations

from enum import Enum
from typing import Any, TypeVar

T = TypeVar("T")


def numbers(kind: type[Enum], enum: Any, prefix: str) -> dict[Any, Any]:
    """Returns the contract's number of each member of `kind`; both have the same names, but for the prefix."""
    return {member: enum.Value(prefix + member.name) for member in kind}


def members(kind: type[T], enum: Any, prefix: str) -> dict[int, T]:
    """Returns each member of an enum by the contract's number; see `numbers`."""
    return {number: member for member, number in numbers(kind, enum, prefix).items()}  # type: ignore[arg-type]
