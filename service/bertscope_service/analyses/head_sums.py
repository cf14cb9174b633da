"""Numbers for each head, summed over texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class HeadSums:
    """A number for each head: the texts that have it, its sums and those of its squares over these, [layers, heads]."""

    texts: int
    sums: NDArray[np.float64]
    squares: NDArray[np.float64]

    @classmethod
    def of(cls, values: NDArray[Any]) -> HeadSums:
        """Sums the values of texts, [texts, layers, heads]."""
        wide = values.astype(np.float64, copy=False)
        return cls(len(wide), wide.sum(axis=0), np.square(wide).sum(axis=0))


@dataclass(frozen=True, slots=True, eq=False)
class SumsByKind:
    """HeadSums of several kinds: features or relations.

    texts: the texts with a number of each kind, int64 [kinds]. sums, squares: of the numbers and of their squares, float64
    [kinds, layers, heads].
    """

    texts: NDArray[np.int64]
    sums: NDArray[np.float64]
    squares: NDArray[np.float64]

    @classmethod
    def zeros(cls, size: tuple[int, int, int]) -> Self:
        """Returns the sums over no text. size: kinds, layers, heads."""
        return cls(np.zeros(size[0], np.int64), np.zeros(size, np.float64), np.zeros(size, np.float64))

    def add(self, kinds: NDArray[np.int64], numbers: NDArray[np.float64]) -> None:
        """Adds the numbers of a text, [n, layers, heads], for n different kinds."""
        self.texts[kinds] += 1
        self.sums[kinds] += numbers
        self.squares[kinds] += numbers**2

    def of(self, kind: int) -> HeadSums:
        """Returns the sums of one kind."""
        return HeadSums(int(self.texts[kind]), self.sums[kind], self.squares[kind])
