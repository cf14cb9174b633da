"""Sums of what changes at sites do to a number, and the events of a sweep over sites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from bertscope_service.ablation.site_plan import Units
from bertscope_service.analyses.observers.targets import Scale, Target

LEAST_DIFFERENCE = 0.05
"""Runs whose values differ by less have no ratio: it would be a division by next to nothing. Nats; of a target in another unit,
the share of the larger value, which for a probability is about as many nats of its logarithm."""


class Sums:
    """Sums over pairs, for each of some changes at each of its positions."""

    def __init__(self, changes: int, groups: int) -> None:
        self._sums = np.zeros((changes, groups, 6))

    def add(self, change: int, group: int, target: Target, value: float, base: float, other: float) -> None:
        """Counts a pair: the values of its target with the change, without it, and in the other run."""
        nats = getattr(target, "scale", None) in (Scale.LOGIT, Scale.LOG_PROBABILITY)
        least = LEAST_DIFFERENCE * (1.0 if nats else max(abs(base), abs(other)))
        difference, span = value - base, other - base
        told = abs(span) >= least and span != 0
        ratio = difference / span if told else 0.0
        self._sums[change, group] += (1, difference, difference**2, told, ratio, ratio**2)

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
