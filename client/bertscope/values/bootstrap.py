"""Defines the studentized bootstrap of means and of ratios of sums, and McNemar's test, for client and service alike.

It needs numpy alone: the service's analyses import it, and nothing else of the client.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Columns = NDArray[np.float64]
"""[items, columns], or one number for each column [columns]."""

MIN_ITEMS = 5
"""Minimum number of items for an interval. With 4, one resample in 64 draws a single item again and again."""
SPREADLESS = 1e-12
"""Values that differ by less than this, relative to the largest residual, count as equal: the difference is rounding."""
QUANTILE_STEPS = 100_000
"""Steps of the integral that quantiles of Student's t are read from, right to eight digits from 4 degrees of freedom."""


def studentized(
    totals: Columns, counts: Iterable[NDArray[np.float64]], confidence: float, sizes: NDArray[np.float64] | None = None
) -> tuple[Columns, Columns]:
    """Returns lower and upper ends for sum(totals) / sum(sizes), for each column; NaN if too few items differ to tell the
    spread.

    Studentized bootstrap (Efron and Tibshirani 1993, section 12.5): quantiles of (resampled - observed) / standard error of
    the resample, times the standard error. Arguments are as for `resampled`; see `studentized_ends` for the quantiles.
    """
    value, error, ratios = resampled(totals, counts, sizes)
    return studentized_ends(value, error, ratios, ratios, len(totals) - 1, confidence)


def resampled(
    totals: Columns,
    counts: Iterable[NDArray[np.float64]],
    sizes: NDArray[np.float64] | None = None,
    times: NDArray[np.float64] | None = None,
) -> tuple[Columns, Columns, Columns]:
    """Returns sum(totals) / sum(sizes) for each column, its standard error, which is 0 where no items differ, and (resampled -
    observed) / standard error of each resample, [resamples, columns]; see `over_spread`.

    `totals` are [items, columns], at least 2 items. `sizes` [items] are at least 0; their default is ones, so that the ratio
    is the mean. `counts` hold the number of times each item is in each resample, in chunks [rows, items], and `times` [items]
    the number of times that it is in the sample itself, ones unless set. The standard error of a ratio is that of its
    residuals (Cochran 1977, section 6.4).
    """
    weights = np.ones(len(totals)) if sizes is None else sizes
    present = np.ones(len(totals)) if times is None else times
    items, size = float(present.sum()), float(present @ weights)
    value = present @ totals / size
    residuals = totals - value * weights[:, None]
    squares = residuals**2
    rounding = (SPREADLESS * np.abs(totals).max(axis=0)) ** 2
    smallest = SPREADLESS * (squares.max(axis=0) + rounding)
    # One product for all sums, because reading the counts takes the time.
    sums = [residuals, squares] if sizes is None else [residuals, squares, residuals * weights[:, None], weights[:, None]]
    sums += [] if sizes is None else [weights[:, None] ** 2]
    joined, factor = np.concatenate(sums, axis=1), items / (items - 1)
    ratios = []
    for drawn in counts:
        moved, spread, *others = np.split(drawn @ joined, np.cumsum([part.shape[1] for part in sums[:-1]]), axis=1)
        if others:
            cross, total, square = others
            off = moved / np.maximum(total, SPREADLESS * weights.max())
            variance = spread - 2 * off * cross + off**2 * square
        else:
            variance = spread - moved**2 / items
        ratios.append(over_spread(moved, factor * variance, smallest))
    error = np.sqrt(factor * (present @ squares)) / size
    return value, np.where(squares.max(axis=0) > rounding, error, 0.0), np.concatenate(ratios)


def studentized_ends(
    value: Columns | float, error: Columns | float, lowest: Columns, highest: Columns, degrees: float, confidence: float
) -> tuple[Columns, Columns]:
    """Returns both ends of studentized intervals, for each column; NaN where one is unknown, or the error is 0.

    `lowest` and `highest` are (resampled - observed) / standard error of each resample, [resamples, columns]: twice the same,
    or the extremes of several intervals that hold at once. Student's t with `degrees` of freedom replaces an end where it lies
    further out: the bootstrap is too short for symmetric values with heavy tails, Student's t for skewed ones. A resample of
    equal items has no standard error and counts as beyond any quantile; an end that falls among these is unknown.
    """
    tail = (1 - confidence) / 2
    # The order statistics (R + 1) p of Davison and Hinkley 1997, section 5.2; the outer one if that is not an integer.
    rank = min(max(1, math.floor((len(lowest) + 1) * tail + 1e-9)), (len(lowest) + 1) // 2)
    below, above = np.partition(lowest, rank - 1, axis=0)[rank - 1], np.partition(highest, -rank, axis=0)[-rank]
    reach = student_quantile(degrees, 1 - tail)
    known = np.isfinite(below) & np.isfinite(above) & (error > 0)
    with np.errstate(invalid="ignore"):
        low, high = value - np.maximum(above, reach) * error, value - np.minimum(below, -reach) * error
    return np.where(known, low, np.nan), np.where(known, high, np.nan)


@lru_cache(maxsize=1024)
def student_quantile(degrees: float, probability: float) -> float:
    """Returns the quantile of Student's t at a probability of 0.5 to 1; `degrees` of freedom are at least 1."""
    # Student's t is tan(angle) * sqrt(degrees), where the angle has the density cos(angle) ** (degrees - 1).
    edges = np.linspace(0, min(math.pi / 2, 12 / math.sqrt(degrees)), QUANTILE_STEPS + 1)
    below = np.concatenate([[0.0], np.cumsum(np.cos((edges[1:] + edges[:-1]) / 2) ** (degrees - 1))])
    return math.tan(float(np.interp(2 * probability - 1, below / below[-1], edges))) * math.sqrt(degrees)


def student_tail(quantile: float, degrees: float) -> float:
    """Returns the chance that Student's t exceeds a quantile; `degrees` of freedom are at least 1. Right to six digits."""
    if quantile < 0:
        return 1 - student_tail(-quantile, degrees)
    power, angle = degrees - 1, math.atan(quantile / math.sqrt(degrees))  # see `student_quantile`
    # Where the density is e**-40 of that at the quantile, nothing is left.
    end = math.acos(math.cos(angle) * math.exp(-40 / power)) if power > 0 else math.pi / 2
    edges = np.linspace(angle, end, QUANTILE_STEPS + 1)
    mean = float(((np.cos((edges[1:] + edges[:-1]) / 2) / math.cos(angle)) ** power).mean())
    scale = power * math.log(math.cos(angle)) + math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)
    return (end - angle) * mean * math.exp(scale) / math.sqrt(math.pi)


def over_spread(moved: Columns, variance: Columns, smallest: Columns | float) -> Columns:
    """Returns moved / sqrt(variance) of resamples; infinite for one whose variance is `smallest` or less, and 0 for one of
    these that did not move."""
    flat = variance <= smallest
    ratios: Columns = moved / np.sqrt(np.where(flat, 1.0, variance))
    return np.where(flat, np.where(moved**2 <= smallest, 0.0, np.copysign(np.inf, moved)), ratios)


def mcnemar(lost: int, won: int) -> float:
    """Returns the two-sided exact p-value that two models are right equally often, from the items that one of them alone has
    right (McNemar 1947; exact: binomial)."""
    items, few = lost + won, np.arange(min(lost, won) + 1)
    factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, items + 1)))])
    tail = np.exp(factorials[items] - factorials[few] - factorials[items - few] - items * math.log(2)).sum()
    # Under the null hypothesis the binomial distribution is symmetric, so both tails are equal.
    return min(1.0, 2 * float(tail))
