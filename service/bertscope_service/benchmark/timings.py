"""Speed comparisons of models: ratios of times that were measured in turn, with bootstrap intervals.

Models are timed in rounds (C A B, B A C, ...). Whole rounds are resampled, with all models' runs in them: a machine that slows
down slows all of them, and their ratio stays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import NormalDist
from typing import Any

import numpy as np
from bertscope.values.bootstrap import MIN_ITEMS, student_quantile, studentized
from numpy.typing import NDArray

from bertscope_service.analyses.intervals import (
    IntervalMethod,
    NoInterval,
    enough_resamples,
    hybrid_wilson,
    studentized_ratio,
)
from bertscope_service.analyses.metrics import Bootstrap
from bertscope_service.analyses.statistics import Resamples

MAX_BLOCKS = 256
"""More rounds than this are resampled in groups of neighbours: it is faster, and keeps the correlation of consecutive
rounds."""

MAX_GRID = 2048
"""Medians of more times than this use that many of them, evenly spread over the ranks."""

CHUNK = 4 * 1024 * 1024
"""Maximum count of numbers that resampling keeps at a time."""


class Verdict(Enum):
    """The conclusion from the interval of a ratio."""

    ABOVE = "above"
    BELOW = "below"
    NOT_DISTINGUISHABLE = "not distinguishable"


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio and its interval with its method, or the reason for a missing interval, which is 0 to infinity then."""

    value: float
    low: float
    high: float
    method: IntervalMethod | None = None
    no_interval: NoInterval | None = None

    @classmethod
    def without_interval(cls, value: float, why: NoInterval) -> Ratio:
        return cls(value, 0.0, float("inf"), None, why)

    @property
    def verdict(self) -> Verdict:
        """The conclusion whether the ratio differs from 1."""
        if self.low > 1:
            return Verdict.ABOVE
        return Verdict.BELOW if self.high < 1 else Verdict.NOT_DISTINGUISHABLE


@dataclass(frozen=True, slots=True)
class Timings:
    """Times of one model, seconds [runs], and the number of each run's round, from 0 [runs]."""

    seconds: NDArray[np.float64]
    rounds: NDArray[np.int64]

    @classmethod
    def of(cls, rounds: Sequence[Sequence[float] | NDArray[np.float64]]) -> Timings:
        """Joins the times of each round."""
        return cls(np.concatenate(rounds), np.repeat(np.arange(len(rounds)), [len(times) for times in rounds]))

    def percentiles(self, shares: Sequence[float]) -> list[float]:
        """Returns the percentiles of the times, seconds; `shares` are percentages."""
        found: list[float] = np.percentile(self.seconds, shares).tolist()
        return found

    @property
    def median(self) -> float:
        return float(np.median(self.seconds))


def ratio_of_medians(above: Timings, below: Timings, bootstrap: Bootstrap, factor: float = 1.0) -> Ratio:
    """Returns factor * median(above) / median(below), for two models that were timed in the same rounds."""
    rounds = 1 + int(max(above.rounds[-1], below.rounds[-1]))
    blocks = min(rounds, MAX_BLOCKS)
    tables = [_Medians(times.seconds, times.rounds * blocks // rounds, blocks) for times in (above, below)]
    drawn = [tables[0].of(counts) / tables[1].of(counts) for counts in Resamples(blocks, bootstrap)]
    return _ratio(factor * above.median / below.median, factor * np.concatenate(drawn), blocks, bootstrap)


def ratio_of_means(above: NDArray[np.float64], below: NDArray[np.float64], bootstrap: Bootstrap) -> Ratio | None:
    """Returns mean(above) / mean(below) of the same items [items]; None if the latter is 0."""
    means = float(above.mean()), float(below.mean())
    if means[1] == 0:
        return None
    value, items = means[0] / means[1], len(above)
    if items < MIN_ITEMS:
        return Ratio.without_interval(value, NoInterval.TOO_FEW_ITEMS)
    if min(means) <= 0:
        return Ratio.without_interval(value, NoInterval.MEAN_NOT_POSITIVE)
    if np.array_equal(above, below):
        return Ratio(1.0, 1.0, 1.0, IntervalMethod.STUDENTIZED_BOOTSTRAP)
    if not enough_resamples(bootstrap.resamples, bootstrap.confidence):
        return Ratio.without_interval(value, NoInterval.TOO_FEW_RESAMPLES)
    low, high = studentized_ratio(above[:, None], below[:, None], Resamples(items, bootstrap), bootstrap.confidence)
    if np.isnan(low[0]) or np.isnan(high[0]):
        return Ratio.without_interval(value, NoInterval.TOO_FEW_DIFFER)
    return Ratio(value, min(value, float(low[0])), max(value, float(high[0])), IntervalMethod.STUDENTIZED_BOOTSTRAP)


def ratio_of_proportions(above: NDArray[np.float64], below: NDArray[np.float64], confidence: float) -> Ratio | None:
    """Returns mean(above) / mean(below) of 0 and 1 for the same items [items]; None if the latter is 0."""
    if not below.any():
        return None
    value = float(above.sum() / below.sum())
    if len(above) < MIN_ITEMS:
        return Ratio.without_interval(value, NoInterval.TOO_FEW_ITEMS)
    low, high = hybrid_wilson(above[:, None], below[:, None], confidence)
    return Ratio(value, min(value, float(low[0])), max(value, float(high[0])), IntervalMethod.HYBRID_WILSON)


def interval_of_mean(
    totals: NDArray[np.float64], sizes: NDArray[np.float64], bootstrap: Bootstrap, least: float = 0.0, most: float = math.inf
) -> tuple[float, float]:
    """Returns an interval of sum(totals) / sum(sizes), between `least` and `most`, over some items [items]; an item is a text
    of several places.

    The interval is `least` to `most` if the items are too few, or differ too little.
    """
    if np.array_equal(totals, totals[0] / sizes[0] * sizes):
        return float(totals[0] / sizes[0]), float(totals[0] / sizes[0])
    if len(totals) < MIN_ITEMS or not enough_resamples(bootstrap.resamples, bootstrap.confidence):
        return least, most
    low, high = studentized(totals[:, None], Resamples(len(totals), bootstrap), bootstrap.confidence, sizes)
    return (least, most) if np.isnan(low[0]) else (max(least, float(low[0])), min(most, float(high[0])))


def _ratio(value: float, drawn: NDArray[np.float64], items: int, bootstrap: Bootstrap) -> Ratio:
    if items < 2:
        return Ratio.without_interval(value, NoInterval.TOO_FEW_ITEMS)
    low, high = _ends(drawn, items, bootstrap)
    return Ratio(value, min(low, value), max(high, value), IntervalMethod.EXPANDED_PERCENTILE)


def _ends(drawn: NDArray[np.float64], items: int, bootstrap: Bootstrap) -> list[float]:
    """Returns both ends of an interval by percentiles, which are further out for fewer items.

    Hesterberg 2015, "What Teachers Should Know About the Bootstrap", section 4.6 (expanded percentile interval): plain
    percentiles are too narrow for few items, by as much as the normal distribution is narrower than Student's.
    """
    tail = (1 - bootstrap.confidence) / 2
    if items > 1:
        tail = NormalDist().cdf(-math.sqrt(items / (items - 1)) * student_quantile(items - 1, 1 - tail))
    # Not interpolated: a resample may be infinite.
    ends: list[float] = np.quantile(drawn, [tail, 1 - tail], method="inverted_cdf").tolist()
    return ends


class _Medians:
    """Medians of resampled blocks of times, from a cumulative table of each block's times."""

    def __init__(self, seconds: NDArray[np.float64], blocks: NDArray[np.int64], count: int) -> None:
        """Builds the table. `blocks` holds each time's block, 0 to count - 1."""
        ordered = np.sort(seconds)
        ranks = np.linspace(0, len(ordered) - 1, min(len(ordered), MAX_GRID)).round().astype(np.int64)
        self._grid: NDArray[np.float64] = np.unique(ordered[ranks])
        cells = blocks * len(self._grid) + np.searchsorted(self._grid, seconds)
        table = np.bincount(cells, minlength=count * len(self._grid)).reshape(count, -1)
        self._table: NDArray[Any] = table.cumsum(axis=1).astype(np.float64)

    def of(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the median of each resample [rows]; counts [rows, blocks] says how often it holds each block."""
        step = max(1, CHUNK // len(self._grid))
        return np.concatenate([self._middle(counts[begin : begin + step]) for begin in range(0, len(counts), step)])

    def _middle(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        reached = counts @ self._table
        half = reached[:, -1:] / 2
        # The median of an even number of times is the mean of two.
        lower, upper = (reached < half).sum(axis=1), (reached <= half).sum(axis=1)
        middle: NDArray[np.float64] = (self._grid[lower] + self._grid[upper]) / 2
        return middle
