"""Adds the replies of several calls to the reply of one, and reads sums as arrays."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import numpy.typing as npt

from bertscope.errors import CLIENT_SIDE, FailedPrecondition, InvalidReply, invalid_argument
from bertscope.values.display import ShownAsTable
from bertscope.values.results import Provenance

Summand = TypeVar("Summand")


def total(parts: Iterable[Summand]) -> Summand:
    """Returns the sum of one or more."""
    return reduce(add, parts)


def added(parts: Sequence[Any], names: Iterable[str]) -> dict[str, Any]:
    """Returns the sums of some attributes of the parts, by name; None of what a part lacks."""
    found = {name: [getattr(part, name) for part in parts] for name in names}
    return {name: None if any(one is None for one in values) else total(values) for name, values in found.items()}


def added_by_name(parts: Iterable[Mapping[str, Summand]], known: Sequence[str] = ()) -> dict[str, Summand]:
    """Returns the sum of each name's values: known names in their order, then others as they first came."""
    parts = [*parts]
    found = dict.fromkeys(name for part in parts for name in part)
    names = [*(name for name in known if name in found), *(name for name in found if name not in known)]
    return {name: total(part[name] for part in parts if name in part) for name in names}


def same_weights(sources: Iterable[Provenance]) -> Provenance:
    """Returns the provenance that parts share. Raises FailedPrecondition if their models have different weights, and
    InvalidArgument without a part."""
    first: Provenance | None = None
    for source in sources:
        first = first or source
        if source.weights_digest != first.weights_digest:
            raise FailedPrecondition(
                f"the parts come from models with other weights, {first.model} and {source.model}; merge parts of one model",
                reason=CLIENT_SIDE,
                metadata={"first": first.weights_digest, "other": source.weights_digest},
            )
    if first is None:
        raise invalid_argument("parts", "is empty; give one part or more")
    return first


def require_same(parts: Sequence[Any], names: Sequence[str]) -> None:
    """Raises InvalidArgument unless all parts have the same values of some attributes."""
    for name in names:
        found = [getattr(part, name) for part in parts]
        for index, value in enumerate(found):
            if value != found[0]:
                raise invalid_argument(f"parts[{index}]", f"has {name} {value}, and parts[0] {found[0]}; only equal ones merge")


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Sums:
    """Numbers that are sums over texts: those of other texts are added field by field."""

    _same: ClassVar[tuple[str, ...]] = ()
    """Fields that both have in common."""

    def __add__(self, other: Self) -> Self:
        names = [field.name for field in dataclasses.fields(self) if field.name not in self._same]
        return dataclasses.replace(self, **added([self, other], names))


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class OfTexts(ShownAsTable):
    """A result over texts, to which those over other texts can be added."""

    _same: ClassVar[tuple[str, ...]] = ("layers", "heads")
    """Attributes that parts which merge have in common."""
    _added: ClassVar[tuple[str, ...]] = ("texts",)
    """Fields that are added."""
    _by_name: ClassVar[Mapping[str, Sequence[str]]] = {}
    """Fields whose values are added by name, and the names that come first."""

    @classmethod
    def merge(cls, parts: Iterable[Self]) -> Self:
        """Returns the result over all texts of the parts, the same as of one call with them all.

        Raises InvalidArgument without a part, or for parts that were asked about other layers, heads or kinds of numbers, and
        FailedPrecondition for models with other weights.
        """
        found = [*parts]
        for name in (field.name for field in dataclasses.fields(cls) if field.name.endswith("provenance")):
            same_weights(getattr(part, name) for part in found)
        require_same(found, cls._same)
        named = {name: added_by_name((getattr(part, name) for part in found), known) for name, known in cls._by_name.items()}
        return dataclasses.replace(found[0], **added(found, cls._added), **named)


def numbers(values: Sequence[float], shape: tuple[int, ...], what: str) -> npt.NDArray[np.float64]:
    """Returns a field of doubles as an array. Raises InvalidReply unless it has this shape."""
    return _shaped(np.array(values, np.float64), shape, what)


def counts(values: Sequence[int], shape: tuple[int, ...], what: str) -> npt.NDArray[np.int64]:
    """Returns a field of whole numbers as an array. Raises InvalidReply unless it has this shape."""
    return _shaped(np.array(values, np.int64), shape, what)


def _shaped(values: npt.NDArray[Any], shape: tuple[int, ...], what: str) -> npt.NDArray[Any]:
    if values.size != math.prod(shape):
        raise InvalidReply(f"the server sent {values.size} numbers of {what} where {math.prod(shape)} belong")
    return values.reshape(shape)


def require_distinct(names: list[str], what: str) -> None:
    """Raises InvalidReply for a name that comes twice."""
    if len(set(names)) != len(names):
        raise InvalidReply(f"the server sent a {what} twice")
