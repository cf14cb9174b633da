"""Enums of the contract, and the values that stand for theirs in the service."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeVar

from bertscope_service.errors import InvalidArgument

T = TypeVar("T")


def numbers(kind: type[Enum], enum: Any, prefix: str) -> dict[Any, Any]:
    """Returns the contract's number of each member of `kind`; both have the same names, but for the prefix."""
    return {member: enum.Value(prefix + member.name) for member in kind}


def members(kind: type[T], enum: Any, prefix: str) -> dict[int, T]:
    """Returns each member of an enum by the contract's number; see `numbers`."""
    return {number: member for member, number in numbers(kind, enum, prefix).items()}  # type: ignore[arg-type]


def meaning(table: Mapping[Any, T], number: int, field: str, allowed: str, reason: str) -> T:
    """Returns the meaning of a number in a request. Raises InvalidArgument for one without; `allowed` names those with one."""
    if number not in table:
        raise InvalidArgument(field, f"{field} is {number}; set {allowed}", reason)
    return table[number]
