"""Divides a number among the units of a text, from its values with some units absent.

A game is a function v of sets of units: v(S) is the number with all units outside S absent. The Shapley value of a unit is the
mean over all orders of what it adds to those before it (Shapley 1953); values sum to v(all) - v(none).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from math import comb
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Sets = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Shares:
    """The number of a text, divided among its units: values float64 [units], and v(all) and v(none).

    For sampled values, `sums` and `sums_of_squares` are those of each unit's value over `pairs` independent pairs of orders,
    [units]. interactions: float32 [units, units], if requested. completeness_error, steps: of methods with gradients.
    """

    values: Floats
    value: float
    value_absent: float
    pairs: int = 0
    sums: Floats | None = None
    sums_of_squares: Floats | None = None
    interactions: NDArray[np.float32] | None = None
    completeness_error: float | None = None
    steps: int = 0


class Game(Protocol):
    """A way to divide a number: the sets whose values it needs, and the division."""

    @property
    def rows(self) -> int:
        """The number of sets."""

    def present(self, row: int) -> Sets:
        """Returns the units that set `row` has, bool [units]."""

    def divide(self, values: Floats) -> Shares:
        """Divides the number; `values` are those of all sets, [rows]."""


class ExactShapley:
    """Shapley values from the values of all sets, of which set k has the units whose bit is set in k.

    interactions: also the interaction index of each pair (Grabisch and Roubens 1999): the mean over the sets S without both,
    each size as likely and each set of a size, of v(S + i + j) - v(S + i) - v(S + j) + v(S).
    """

    def __init__(self, units: int, *, interactions: bool = False) -> None:
        self._units, self._interactions = units, interactions

    @property
    def rows(self) -> int:
        return 1 << self._units

    def present(self, row: int) -> Sets:
        return _bits(row, self._units)

    def divide(self, values: Floats) -> Shares:
        units = self._units
        members, sizes = _members(units)
        found = np.empty(units)
        weights = _weights(units - 1)
        for unit in range(units):
            without = np.flatnonzero(~members[:, unit])
            found[unit] = weights[sizes[without]] @ (values[without | (1 << unit)] - values[without])
        pairs = self._pairs(values) if self._interactions else None
        return Shares(found, float(values[-1]), float(values[0]), interactions=pairs)

    def _pairs(self, values: Floats) -> NDArray[np.float32]:
        units = self._units
        members, sizes = _members(units)
        found = np.zeros((units, units))
        for first in range(units):
            for second in range(first):
                without = np.flatnonzero(~(members[:, first] | members[:, second]))
                one, other = 1 << first, 1 << second
                together = values[without | one | other] - values[without | one] - values[without | other] + values[without]
                found[first, second] = found[second, first] = _weights(units - 2)[sizes[without]] @ together
        return found.astype(np.float32)


class SampledShapley:
    """Estimates Shapley values from pairs of orders, each with its reverse (antithetic sampling: Mitchell et al. 2022).

    The first two sets are none and all; each order then needs its first 1, 2, ... n - 1 units. Pair k of a seed is the same
    whatever the number of pairs, so that the pairs of a text may be divided among calls.
    """

    def __init__(self, units: int, pairs: range, seed: int) -> None:
        """`units`: at least 2."""
        self._units, self._pairs, self._seed = units, pairs, seed

    @property
    def rows(self) -> int:
        return 2 + 2 * len(self._pairs) * (self._units - 1)

    def present(self, row: int) -> Sets:
        if row < 2:
            return np.full(self._units, bool(row))
        number, size = divmod(row - 2, self._units - 1)
        found = np.zeros(self._units, dtype=bool)
        found[self._order(number)[: size + 1]] = True
        return found

    def _order(self, number: int) -> NDArray[np.int64]:
        order = _permutation(self._seed, self._pairs[number // 2], self._units)
        return order[::-1] if number % 2 else order

    def divide(self, values: Floats) -> Shares:
        none, whole = values[:2]
        walks = np.concatenate(
            [
                np.full((2 * len(self._pairs), 1), none),
                values[2:].reshape(2 * len(self._pairs), self._units - 1),
                np.full((2 * len(self._pairs), 1), whole),
            ],
            axis=1,
        )
        added = np.diff(walks, axis=1)
        by_unit = np.empty_like(added)
        for number, row in enumerate(added):
            by_unit[number, self._order(number)] = row
        samples = by_unit.reshape(len(self._pairs), 2, self._units).mean(axis=1)
        sums = samples.sum(axis=0)
        return Shares(
            sums / len(self._pairs), float(whole), float(none), len(self._pairs), sums, np.square(samples).sum(axis=0)
        )


class Occlusion:
    """The loss of the number without each unit, v(all) - v(all - i). The first two sets are none and all."""

    def __init__(self, units: int) -> None:
        self._units = units

    @property
    def rows(self) -> int:
        return self._units + 2

    def present(self, row: int) -> Sets:
        found = np.full(self._units, row > 0)
        if row >= 2:
            found[row - 2] = False
        return found

    def divide(self, values: Floats) -> Shares:
        return Shares(values[1] - values[2:], float(values[1]), float(values[0]))


def _bits(row: int, units: int) -> Sets:
    found: Sets = (row >> np.arange(units)) & 1 == 1
    return found


@cache
def _members(units: int) -> tuple[Sets, NDArray[np.int64]]:
    """Returns the members of each set, bool [2^units, units], and their number."""
    members: Sets = (np.arange(1 << units)[:, None] >> np.arange(units)) & 1 == 1
    return members, members.sum(axis=1)


@cache
def _weights(others: int) -> Floats:
    """Returns the weight of a set of each size 0 to `others` among so many other units."""
    return np.array([1 / ((others + 1) * comb(others, size)) for size in range(others + 1)])


@lru_cache(maxsize=1024)
def _permutation(seed: int, pair: int, units: int) -> NDArray[np.int64]:
    return np.random.default_rng((seed, pair)).permutation(units)
