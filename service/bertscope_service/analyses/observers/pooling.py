"""Joins the states of the pieces of words, spans and texts, on the device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.encoders.transfers import place_arrays

Join = Callable[[torch.Tensor], torch.Tensor]
"""Joins states [pieces, size] -> [units, size]."""


class Pooling(Enum):
    """How the states of several pieces become one; see bertscope.v1.StatePooling."""

    FIRST = "first"
    LAST = "last"
    MEAN = "mean"
    MAX = "max"


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """The units of a text and how their pieces are joined: `positions` of the pieces, unit after unit, and the unit of each,
    ascending, int64 [pieces] both. `count` units."""

    positions: NDArray[np.int64]
    of: NDArray[np.int64]
    count: int
    pooling: Pooling

    @classmethod
    def made(cls, units: Sequence[Sequence[int]], pooling: Pooling) -> Self:
        """Makes units of the positions of their pieces, ascending, one at least in each."""
        if pooling in (Pooling.FIRST, Pooling.LAST):
            units = [unit[:1] if pooling is Pooling.FIRST else unit[-1:] for unit in units]
        sizes = [len(unit) for unit in units]
        positions = np.fromiter((place for unit in units for place in unit), np.int64, sum(sizes))
        return cls(positions, np.repeat(np.arange(len(units)), sizes), len(units), pooling)

    @classmethod
    def in_batch(cls, units: Sequence[Self] | Mapping[int, Self], length: int) -> Self:
        """Joins the units of a batch's rows, or of some by their number, all of one pooling; positions count over all rows,
        each of this `length`."""
        rows = units if isinstance(units, Mapping) else dict(enumerate(units))
        positions = np.concatenate([one.positions + row * length for row, one in rows.items()])
        firsts = accumulate((one.count for one in rows.values()), initial=0)
        of = np.concatenate([one.of + first for one, first in zip(rows.values(), firsts, strict=False)])
        return cls(positions, of, sum(one.count for one in rows.values()), next(iter(rows.values())).pooling)

    def place(self, device: torch.device) -> Join:
        """Returns a function that joins states [pieces, size] -> [units, size], on the device."""
        if self.pooling in (Pooling.FIRST, Pooling.LAST):
            (only,) = place_arrays(device, self.positions)
            return lambda states: states.index_select(0, only)
        if self.pooling is Pooling.MAX:
            positions, of = place_arrays(device, self.positions, self.of)

            def largest(states: torch.Tensor) -> torch.Tensor:
                pieces = states.index_select(0, positions)
                lowest = states.new_full((self.count, states.shape[1]), -torch.inf)
                return lowest.scatter_reduce_(0, of[:, None].expand(pieces.shape), pieces, "amax")

            return largest

        # Most units have one piece: only the others are added up.
        begins = np.diff(self.of, prepend=-1) != 0
        first, later = np.flatnonzero(begins), np.flatnonzero(~begins)
        counts = np.bincount(self.of, minlength=self.count).astype(np.float32)
        several = np.flatnonzero(counts > 1)
        firsts, laters, units, divided, sizes = place_arrays(
            device, self.positions[first], self.positions[later], self.of[later], several, counts[several, None]
        )

        def mean(states: torch.Tensor) -> torch.Tensor:
            total = states.index_select(0, firsts).float()
            if len(laters):
                total.index_add_(0, units, states.index_select(0, laters).float())
                total[divided] /= sizes
            return total

        return mean
