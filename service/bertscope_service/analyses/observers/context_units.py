"""Units whose contexts are searched for: heads, activations and directions, and how their values are read and counted."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.encoders.sites import Place
from bertscope_service.encoders.transfers import place_arrays

PAIRS: NDArray[np.int64] = np.zeros((0, 2), dtype=np.int64)

SMALLEST_NORM = 1e-12
"""A shorter vector counts as one of zeros, whose cosine is 0."""


class UnitKind(Enum):
    """A kind of units; see bertscope.v1.ContextUnits.Kind."""

    HEAD = "head"
    ACTIVATION = "activation"
    DIRECTION = "direction"


@dataclass(frozen=True, slots=True)
class Bins:
    """The bins of a histogram: `edges`, ascending, float64 [bins - 1], which are `step` apart, or anywhere if that is 0."""

    edges: NDArray[np.float64]
    step: float = 0.0

    @classmethod
    def even(cls, first: float, last: float, step: float) -> Bins:
        """Returns bins of one size; a `step` that is a power of two makes their edges exact."""
        return cls(np.arange(first, last + step, step, dtype=np.float64), step)

    def __len__(self) -> int:
        return len(self.edges) + 1

    def _of(self, values: torch.Tensor, room: torch.Tensor) -> torch.Tensor:
        """Returns the bin of each value, in `room` or as int32."""
        if self.step:
            # Whole steps from 0 on, and only then from the first edge: else a small value below 0 is rounded to it.
            before = 1 - round(float(self.edges[0]) / self.step)
            # What is no number has no bin; its sum, which is none either, ends the search.
            steps = torch.mul(values, 1 / self.step, out=room).floor_().nan_to_num_(nan=0.0)
            return steps.clamp_(-before, len(self) - 1 - before).add_(before)
        (edges,) = place_arrays(values.device, self.edges.astype(np.float32))
        return torch.bucketize(values, edges, right=True, out_int32=True)

    def count(self, values: torch.Tensor, room: torch.Tensor) -> torch.Tensor:
        """Returns what a histogram of values, float32 [places, units], is made from: on a CPU the bin of each, uint8 [places,
        units], which is less than the counts of a small batch, and else the counts, int64 [units, bins]. `room`, of the shape
        of values, is written over: a new tensor of a large batch gets its pages from the system."""
        found = self._of(values, room)
        if values.device.type == "cpu":
            return found.to(torch.uint8)
        # bincount would make the host wait for the largest.
        units, bins = values.shape[1], len(self)
        flat = found.to(torch.int32).add_(torch.arange(units, dtype=torch.int32, device=values.device) * bins).flatten()
        counts = torch.zeros(units * bins, dtype=torch.int64, device=values.device)
        return counts.scatter_add_(0, flat.long(), counts.new_ones(()).expand(len(flat))).view(units, bins)


WEIGHTS = Bins.even(1 / 16, 15 / 16, 1 / 16)
ACTIVATIONS = Bins.even(-1, 7, 1 / 8)
COSINES = Bins.even(-1, 1, 1 / 16)
POWERS = [math.ldexp(1, power) for power in range(-4, 7)]
PRODUCTS = Bins(np.array([*(-power for power in reversed(POWERS)), 0.0, *POWERS], dtype=np.float64))


@dataclass(frozen=True, slots=True, eq=False)
class Directions:
    """Directions at a site, float32 [n, size], what is added to each product, [n], and the thresholds up to which values are 0,
    [n], None without."""

    vectors: NDArray[np.float32]
    biases: NDArray[np.float32]
    thresholds: NDArray[np.float32] | None
    cosine: bool


@dataclass(frozen=True, slots=True, eq=False)
class UnitSet:
    """Units of one kind at one place. layer: theirs; `number` the one that a reply names. units: int64 [n], ascending; all of
    the place if `every`. place: of vectors, None for heads. pairs: places are pairs of words."""

    kind: UnitKind
    layer: int
    number: int
    units: NDArray[np.int64]
    every: bool
    bins: Bins
    place: Place | None = None
    pairs: bool = False
    directions: Directions | None = field(default=None)

    def __len__(self) -> int:
        return len(self.units)

    def some(self, weights: torch.Tensor) -> torch.Tensor:
        """Returns the weights of its heads; weights: [places, heads, words]."""
        return weights if self.every else weights[:, place_arrays(weights.device, self.units)[0]]

    def read(self, words: torch.Tensor) -> torch.Tensor:
        """Returns the values of its activations or directions, float32 [places, units], from vectors [places, size]."""
        if self.directions is None:
            return words if self.every else words[:, place_arrays(words.device, self.units)[0]]
        of, limits = self.directions, self.directions.thresholds
        vectors, biases, *thresholds = place_arrays(words.device, of.vectors, of.biases, *(() if limits is None else (limits,)))
        values = torch.addmm(biases, words, vectors.T)
        if of.cosine:
            lengths = words.norm(dim=1, keepdim=True) * vectors.norm(dim=1)
            values = (words @ vectors.T / lengths.clamp(min=SMALLEST_NORM)).clamp(-1, 1)
        return torch.where(values > thresholds[0], values, 0.0) if thresholds else values
