"""Sequences whose elements are built on access."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar, overload

T = TypeVar("T")


class LazySequence(Sequence[T], Generic[T]):
    """A sequence whose elements are built on access: millions of rows would not fit into memory."""

    def __init__(self, count: int, make: Callable[[int], T]) -> None:
        self._count = count
        self._make = make

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[T]:
        return map(self._make, range(self._count))

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        rows = range(self._count)[index]
        return self._make(rows) if isinstance(rows, int) else LazySequence(len(rows), lambda which: self._make(rows[which]))
