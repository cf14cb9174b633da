"""Confidence intervals of means and of their ratios, valid for few items and skewed values; docs/statistics.md has their
coverage.

Percentile intervals are too short for few items: nominal 95 % cover 88 % at 8 normal items and 78 % at 8 log-normal ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import Enum
from statistics import NormalDist

import numpy as np
from bertscope.values.bootstrap import SPREADLESS, Columns, studentized_ends
from numpy.typing import NDArray


class IntervalMethod(Enum):
    """The method that computes an interval; see bertscope.v1.IntervalMethod."""

    STUDENTIZED_BOOTSTRAP = "studentized_bootstrap"
    ADJUSTED_WALD = "adjusted_wald"
    HYBRID_WILSON = "hybrid_wilson"
    EXPANDED_PERCENTILE = "expanded_percentile"


class NoInterval(Enum):
    """The reason for a missing interval; see bertscope.v1.NoInterval."""

    TOO_FEW_ITEMS = "too_few_items"
    TOO_FEW_DIFFER = "too_few_differ"
    TOO_FEW_RESAMPLES = "too_few_resamples"
    MEAN_NOT_POSITIVE = "mean_not_positive"


def enough_resamples(resamples: int, confidence: float) -> bool:
    """Checks that this many resamples have quantiles as far out as the confidence requires."""
    return (resamples + 1) * (1 - confidence) / 2 >= 1 - 1e-9


def studentized_ratio(
    above: Columns, below: Columns, counts: Iterable[NDArray[np.float64]], confidence: float
) -> tuple[Columns, Columns]:
    """Returns lower and upper ends for mean(above) / mean(below); NaN if too few items differ to tell the spread.

    Both are of the same items, [items, columns], at least 2 items, with means over 0. `counts` are as for `studentized`.

    The method is that of `studentized`, applied to the logarithm of the ratio and transformed back. The error of the logarithm
    is that of its residuals above / mean - below / mean (the delta method).
    """
    degrees = len(above) - 1
    factor = len(above) / degrees
    # Dividing by the means first keeps a difference of 1e-5 from being lost to rounding.
    lower = below / below.mean(axis=0)
    residuals = above / above.mean(axis=0) - lower
    squares = residuals**2
    smallest = SPREADLESS * squares.max(axis=0)
    sums = np.concatenate([lower, residuals, squares, residuals * lower, lower**2], axis=1)
    ratios = np.concatenate([_log_ratios(drawn @ sums, smallest, factor) for drawn in counts])
    value = np.log(above.mean(axis=0) / below.mean(axis=0))
    known = squares.max(axis=0) > (SPREADLESS * lower.max(axis=0)) ** 2
    error = np.where(known, np.sqrt(factor * squares.sum(axis=0)) / len(above), 0.0)
    low, high = studentized_ends(value, error, ratios, ratios, degrees, confidence)
    return np.exp(low), np.exp(high)


def adjusted_wald(differences: Columns, confidence: float) -> tuple[Columns, Columns]:
    """Returns lower and upper ends for the mean of differences -1, 0 and 1, [items, columns], of two paired proportions.

    Bonett and Price 2012, "Adjusted Wald Confidence Interval for a Difference of Binomial Proportions Based on Paired Data":
    one item that went up and one that went down are added. The interval is valid even if no item moved.
    """
    items = len(differences) + 2
    mean = differences.sum(axis=0) / items
    error = np.sqrt(((differences**2).sum(axis=0) + 2) / items - mean**2) / math.sqrt(items)
    reach = NormalDist().inv_cdf((1 + confidence) / 2) * error
    observed = differences.mean(axis=0)
    return np.minimum(mean - reach, observed).clip(-1, 1), np.maximum(mean + reach, observed).clip(-1, 1)


def hybrid_wilson(above: Columns, below: Columns, confidence: float) -> tuple[Columns, Columns]:
    """Returns lower and upper ends for the ratio of two paired proportions, mean(above) / mean(below) of 0 and 1, [items,
    columns].

    Bonett and Price 2006, "Confidence intervals for a ratio of binomial proportions based on paired data": Wilson's intervals
    of both proportions, as wide as the error of the logarithm of their ratio requires. Items that are 0 on both sides do not
    affect the ratio. The interval begins at 0 if `above` is all 0, and ends at infinity if `below` is.
    """
    up, down = above.sum(axis=0), below.sum(axis=0)
    items, moved = np.maximum(above, below).sum(axis=0), np.abs(above - below).sum(axis=0)
    error = np.sqrt((moved + 2) / ((up + 1) * (down + 1)))
    apart = [np.sqrt((1 - (right + 1) / (items + 2)) / (right + 1)) for right in (up, down)]
    reach = NormalDist().inv_cdf((1 + confidence) / 2) * error / (apart[0] + apart[1])
    (low, high), (lowest, highest) = (_wilson(right, items, reach) for right in (up, down))
    with np.errstate(divide="ignore", invalid="ignore"):
        return low / highest, high / lowest


def _wilson(right: Columns, items: Columns, reach: Columns) -> tuple[Columns, Columns]:
    """Returns Wilson's interval of the proportion right / items; `reach` is the quantile."""
    safe = np.maximum(items, 1)
    middle, off = 2 * right + reach**2, reach * np.sqrt(reach**2 + 4 * right * (1 - right / safe))
    # Rounding must not make a zero nonzero: it may be divided by.
    low = np.where(right > 0, middle - off, 0.0)
    return low / (2 * (items + reach**2)), (middle + off) / (2 * (items + reach**2))


def _log_ratios(sums: Columns, smallest: Columns, factor: float) -> Columns:
    """Returns (resampled - observed) / standard error of logarithms of ratios, from the sums of each resample, [rows, 5 *
    columns]; infinite for resamples of equal items. See `studentized_ratio`."""
    below, moved, spread, cross, square = np.split(sums, 5, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        above = below + moved
        off = -moved / (above * below)
        variance = spread / above**2 + 2 * cross * off / above + square * off**2
        logs = np.log1p(moved / below)
        flat = ~(variance * above**2 > smallest)
        ratios: Columns = logs / np.sqrt(np.where(flat, 1.0, factor * variance))
    # A resample with zeros on both sides shows no difference.
    logs = np.nan_to_num(logs, nan=0.0, posinf=1.0, neginf=-1.0)
    return np.where(flat, np.where(np.abs(moved) ** 2 <= smallest, 0.0, np.copysign(np.inf, logs)), ratios)
