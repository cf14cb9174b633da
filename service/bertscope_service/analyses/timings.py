"""Whether one model is faster than another: ratios of times that were measured in turn, with bootstrap intervals.

Models are timed in rounds (C A B, B A C, ...), and what is drawn again are whole rounds, with all models' runs in them: a
machine that slows down slows all of them, and their ratio stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtrit

from bertscope_service.analyses.ablation import Bootstrap
from bertscope_service.analyses.statistics import Resamples

MAX_BLOCKS = 256
"""More rounds than this are drawn in groups of neighbours: it takes less time, and what one round leaves to the next counts."""

MAX_GRID = 2048
"""Medians of more times than this are rounded to that many of them, evenly spread over the ranks."""

CHUNK = 4 * 1024 * 1024
"""Numbers that resampling keeps at a time."""


class Verdict(Enum):
    """What the interval of a ratio says."""

    ABOVE = "above"
    BELOW = "below"
    NOT_DISTINGUISHABLE = "not distinguishable"


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio and its interval."""

    value: float
    low: float
    high: float

    @property
    def verdict(self) -> Verdict:
        """Whether it can be told from 1."""
        if self.low > 1:
            return Verdict.ABOVE
        return Verdict.BELOW if self.high < 1 else Verdict.NOT_DISTINGUISHABLE


@dataclass(frozen=True, slots=True)
class Timings:
    """Times of one model, seconds [runs], and the number of the round that each was made in, from 0 on [runs]."""

    seconds: NDArray[np.float64]
    rounds: NDArray[np.int64]

    @classmethod
    def of(cls, rounds: Sequence[Sequence[float] | NDArray[np.float64]]) -> Timings:
        """From the times of each round."""
        return cls(np.concatenate(rounds), np.repeat(np.arange(len(rounds)), [len(times) for times in rounds]))

    def percentiles(self, shares: Sequence[float]) -> list[float]:
        """Times that so many percent of the runs took at most."""
        found: list[float] = np.percentile(self.seconds, shares).tolist()
        return found

    @property
    def median(self) -> float:
        return float(np.median(self.seconds))


def ratio_of_medians(above: Timings, below: Timings, bootstrap: Bootstrap, factor: float = 1.0) -> Ratio:
    """factor * median(above) / median(below), of two models that were timed in the same rounds."""
    rounds = 1 + int(max(above.rounds[-1], below.rounds[-1]))
    blocks = min(rounds, MAX_BLOCKS)
    tables = [_Medians(times.seconds, times.rounds * blocks // rounds, blocks) for times in (above, below)]
    drawn = [tables[0].of(counts) / tables[1].of(counts) for counts in _resamples(blocks, bootstrap)]
    return _ratio(factor * above.median / below.median, factor * np.concatenate(drawn), blocks, bootstrap)


def ratio_of_means(above: NDArray[np.float64], below: NDArray[np.float64], bootstrap: Bootstrap) -> Ratio | None:
    """mean(above) / mean(below) of the same items, at least 0 [items]; None if the latter is 0."""
    if not below.any():
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = np.concatenate([(counts @ above) / (counts @ below) for counts in _resamples(len(above), bootstrap)])
    # A resample without anything on either side does not tell them apart.
    drawn[np.isnan(drawn)] = 1.0
    return _ratio(float(above.sum() / below.sum()), drawn, len(above), bootstrap)


def interval_of_mean(totals: NDArray[np.float64], sizes: NDArray[np.float64], bootstrap: Bootstrap) -> tuple[float, float]:
    """Interval of sum(totals) / sum(sizes) over some items [items], where an item is a text of several places."""
    drawn = [(counts @ totals) / (counts @ sizes) for counts in _resamples(len(totals), bootstrap)]
    low, high = _ends(np.concatenate(drawn), len(totals), bootstrap)
    return low, high


def _resamples(items: int, bootstrap: Bootstrap) -> Iterator[NDArray[np.float64]]:
    for counts in Resamples(items, bootstrap):
        yield counts.astype(np.float64)


def _ratio(value: float, drawn: NDArray[np.float64], items: int, bootstrap: Bootstrap) -> Ratio:
    if items < 2:
        return Ratio(value, 0.0, float("inf"))
    low, high = _ends(drawn, items, bootstrap)
    return Ratio(value, min(low, value), max(high, value))


def _ends(drawn: NDArray[np.float64], items: int, bootstrap: Bootstrap) -> list[float]:
    """Both ends of an interval, by percentiles that are further out the fewer items there are.

    Hesterberg 2015, "What Teachers Should Know About the Bootstrap", section 4.6 (expanded percentile interval): plain ones are
    too narrow for few items, by as much as the normal distribution is narrower than Student's.
    """
    tail = (1 - bootstrap.confidence) / 2
    if items > 1:
        tail = float(ndtr(np.sqrt(items / (items - 1)) * stdtrit(items - 1, tail)))
    # Not interpolated: a resample may be infinite.
    ends: list[float] = np.quantile(drawn, [tail, 1 - tail], method="inverted_cdf").tolist()
    return ends


class _Medians:
    """Medians of resampled blocks of times: a table of how many times of each block are at most so long."""

    def __init__(self, seconds: NDArray[np.float64], blocks: NDArray[np.int64], count: int) -> None:
        """`blocks` says which block each time is in, 0 to count - 1."""
        ordered = np.sort(seconds)
        ranks = np.linspace(0, len(ordered) - 1, min(len(ordered), MAX_GRID)).round().astype(np.int64)
        self._grid: NDArray[np.float64] = np.unique(ordered[ranks])
        cells = blocks * len(self._grid) + np.searchsorted(self._grid, seconds)
        table = np.bincount(cells, minlength=count * len(self._grid)).reshape(count, -1)
        self._table: NDArray[Any] = table.cumsum(axis=1).astype(np.float64)

    def of(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """[rows], of each resample; counts [rows, blocks] says how often it holds each block."""
        step = max(1, CHUNK // len(self._grid))
        return np.concatenate([self._middle(counts[begin : begin + step]) for begin in range(0, len(counts), step)])

    def _middle(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        reached = counts @ self._table
        half = reached[:, -1:] / 2
        # Of an even number of times the median lies between two.
        lower, upper = (reached < half).sum(axis=1), (reached <= half).sum(axis=1)
        middle: NDArray[np.float64] = (self._grid[lower] + self._grid[upper]) / 2
        return middle
