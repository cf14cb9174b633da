"""Holds numbers of heads as sums over texts, so that the replies of several calls add up to the reply of one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from bertscope.v1 import attention_statistics_pb2
from bertscope.values.display import record
from bertscope.values.merging import numbers

__all__ = ["HeadSums"]

PerHead = npt.NDArray[np.float64]
"""[layers, heads]."""
Counts = npt.NDArray[np.int64]
"""[layers, heads]."""


@record(eq=False)
class HeadSums:
    """A number of each head, summed over texts. Compared by identity, as numpy arrays have no single truth value."""

    texts: int
    """The texts that have this number."""
    sums: PerHead
    """[layers, heads], the sums over these texts."""
    squares: PerHead
    """[layers, heads], the sums of the squares."""

    def mean(self) -> PerHead:
        """Returns [layers, heads]: the means over the texts; NaN without a text."""
        return divided(self.sums, self.texts)

    def standard_error(self) -> PerHead:
        """Returns [layers, heads]: the standard errors of the means; NaN with fewer than two texts."""
        if self.texts < 2:
            return np.full(self.sums.shape, math.nan)
        # Rounding can make a variance of 0 slightly negative.
        variance = np.maximum(self.squares - self.sums**2 / self.texts, 0) / (self.texts - 1)
        return np.asarray(np.sqrt(variance / self.texts))

    def __add__(self, other: HeadSums) -> HeadSums:
        return HeadSums(self.texts + other.texts, self.sums + other.sums, self.squares + other.squares)


def divided(sums: npt.NDArray[Any], number: float) -> PerHead:
    """Returns sums divided by a number; NaN where it is 0."""
    return np.asarray(sums / number, np.float64) if number else np.full(sums.shape, math.nan)


def head_sums(message: attention_statistics_pb2.HeadSums, shape: tuple[int, ...], what: str) -> HeadSums:
    """Returns the sums of a message. Raises InvalidReply, saying `what` they are of, unless they are of this shape."""
    return HeadSums(message.texts, numbers(message.sums, shape, what), numbers(message.squares, shape, what))
