"""Sums of what changes at sites do to a number, and the events of a sweep over sites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.site_sweep import Units

LEAST_DIFFERENCE = 0.05
"""Runs whose values differ by less have no ratio: it would be a division by next to nothing."""


class Sums:
    """Sums over pairs, for each of some changes at each of its positions."""

    def __init__(self, changes: int, groups: int) -> None:
        self._sums = np.zeros((changes, groups, 6))

    def add(self, change: int, group: int, difference: float, span: float) -> None:
        """Counts a pair: the value with the change minus the value without, and the other run's minus that."""
        ratio = difference / span if abs(span) >= LEAST_DIFFERENCE else 0.0
        self._sums[change, group] += (1, difference, difference**2, abs(span) >= LEAST_DIFFERENCE, ratio, ratio**2)

    def of(self, change: int, group: int) -> NDArray[np.float64]:
        """Returns count, sum and sum of squares of differences, and the same of ratios."""
        found: NDArray[np.float64] = self._sums[change, group]
        return found


@dataclass(frozen=True, slots=True)
class PairValues:
    """The target on both texts of a pair, and the number of the label that it is of; None for targets without one."""

    clean: float
    corrupted: float
    label: int | None


@dataclass(frozen=True, slots=True)
class SiteStart:
    """The first event: the number of effects, and the pairs in order."""

    total: int
    pairs: Sequence[PairValues]


@dataclass(frozen=True, slots=True, eq=False)
class SiteEffect:
    """The effect of changing some units at one of its positions; `sums` as `Sums.of` returns them."""

    units: Units
    group: int
    sums: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SiteSummary:
    """The last event; see bertscope.v1.SiteSweepSummary."""

    layer_passes: int
    full_layer_passes: int
    seconds: float


SiteEvent: TypeAlias = SiteStart | SiteEffect | SiteSummary
