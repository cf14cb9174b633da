"""Computes intervals of shares, of means, and of ratios of sums over texts, such as pairs found to pairs scored, and McNemar's
test."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bertscope import _validation
from bertscope.errors import invalid_argument

RESAMPLES = 10_000
MIN_TEXTS = 5
MIN_CONFIDENCE, MAX_CONFIDENCE = 0.5, 0.999
MAX_DEGENERATE = 0.01
"""The largest share of resamples without a spread; above it, a spread can't be estimated."""
CELLS = 2**22
"""Counts of resamples that are in memory at a time."""

Values = npt.NDArray[np.float64]


class Interval(NamedTuple):
    """An interval of a number."""

    low: float
    """Its lower end."""
    high: float
    """Its upper end."""


def ratio_interval(
    found: Values,
    of: Values,
    bounds: tuple[float, float],
    *,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval | None:
    """Returns the interval of sum(found) / sum(of) over texts, within `bounds`; None where the texts are too few or too alike.

    It is a studentized bootstrap (Efron and Tibshirani 1993, section 12.5): texts are drawn with replacement, and the error of
    each resample's ratio is divided by its own standard error. Raises InvalidArgument for a confidence outside 0.5 to 0.999.
    """
    level = _level(confidence)
    count = _validation.positive("resamples", resamples)
    if len(found) < MIN_TEXTS or not of.sum():
        return None
    # Texts with the same numbers are drawn together: there are few different ones.
    (found, of), times = np.unique(np.stack([found, of]), axis=1, return_counts=True)
    texts = int(times.sum())
    ratio, error = (float(values[0]) for values in _ratios(times[None].astype(np.float64), found, of))
    if not error:
        return None
    generator = np.random.default_rng(_validation.uint64("seed", seed))
    step = max(1, CELLS // len(found))
    parts = []
    for start in range(0, count, step):
        drawn = generator.multinomial(texts, times / texts, min(step, count - start))
        parts.append(_ratios(drawn.astype(np.float64), found, of))
    ratios, errors = (np.concatenate(values) for values in zip(*parts, strict=True))
    return _studentized(ratio, error, ratios, errors, level, bounds)


def mean_interval(
    groups: Sequence[Values],
    bounds: tuple[float, float],
    *,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval | None:
    """Returns the interval of the mean over groups of the means of their values, within `bounds`; one group is a plain mean.

    It is a studentized bootstrap, as in `ratio_interval`, in which values are drawn within their group: the groups are the
    ones there are, as the relations of LAMA. Of differences item by item it is a paired bootstrap. None where the values are
    too few (below 5, or one alone in its group) or too alike. Raises InvalidArgument for a confidence outside 0.5 to 0.999.
    """
    level = _level(confidence)
    count = _validation.positive("resamples", resamples)
    if sum(map(len, groups)) < MIN_TEXTS or min(map(len, groups)) < 2:
        return None
    generator = np.random.default_rng(_validation.uint64("seed", seed))
    # The first row is of the values themselves.
    means, variances = np.zeros(1 + count), np.zeros(1 + count)
    for values in groups:
        different, times = np.unique(values, return_counts=True)
        size, step = len(values), max(1, CELLS // len(different))
        for start in range(0, 1 + count, step):
            rows = slice(start, min(start + step, 1 + count))
            drawn = generator.multinomial(size, times / size, rows.stop - rows.start).astype(np.float64)
            if not start:
                drawn[0] = times
            mean = drawn @ different / size
            variance = np.maximum(drawn @ different**2 / size - mean**2, 0) / (size - 1)
            means[rows] += mean / len(groups)
            variances[rows] += variance / len(groups) ** 2
    # Rounding leaves a little of a spread of 0.
    errors = np.where(variances > 1e-15, np.sqrt(variances), 0.0)
    if not errors[0]:
        return None
    return _studentized(float(means[0]), float(errors[0]), means[1:], errors[1:], level, bounds)


def wilson_interval(found: int, of: int, *, confidence: float = 0.95) -> Interval:
    """Returns Wilson's interval of the share found / of (Wilson 1927); 0 to 1 if `of` is 0."""
    quantile = NormalDist().inv_cdf((1 + _level(confidence)) / 2)
    if not of:
        return Interval(0.0, 1.0)
    share, extra = found / of, quantile**2 / of
    middle = (share + extra / 2) / (1 + extra)
    reach = quantile * math.sqrt(share * (1 - share) / of + extra / (4 * of)) / (1 + extra)
    # Rounding must not put the share outside.
    return Interval(max(0.0, min(share, middle - reach)), min(1.0, max(share, middle + reach)))


def mcnemar(lost: int, won: int) -> float:
    """Returns the two-sided exact p-value that two models are right equally often, from the items that one of them alone has
    right (McNemar 1947; exact: binomial)."""
    items = lost + won
    logs = (
        math.lgamma(items + 1) - math.lgamma(count + 1) - math.lgamma(items - count + 1) - items * math.log(2)
        for count in range(min(lost, won) + 1)
    )
    return min(1.0, 2 * math.fsum(map(math.exp, logs)))


def _studentized(
    value: float, error: float, values: Values, errors: Values, level: float, bounds: tuple[float, float]
) -> Interval | None:
    """Returns the interval of a value from those of resamples and their standard errors; None if too many have no spread."""
    spread = errors > 0
    if np.mean(~spread) > MAX_DEGENERATE:
        return None
    scaled = (values[spread] - value) / errors[spread]
    below, above = np.quantile(scaled, [(1 - level) / 2, (1 + level) / 2])
    low, high = np.clip([value - above * error, value - below * error], *bounds)
    return Interval(float(low), float(high))


def _level(confidence: float) -> float:
    level = _validation.finite_number("confidence", confidence)
    if not MIN_CONFIDENCE <= level <= MAX_CONFIDENCE:
        raise invalid_argument("confidence", f"must be {MIN_CONFIDENCE} to {MAX_CONFIDENCE}, not {level:g}")
    return level


def _ratios(drawn: Values, found: Values, of: Values) -> tuple[Values, Values]:
    """Returns, for each row of how often texts are drawn, the ratio of the sums and its standard error, by linearisation."""
    texts = drawn.sum(1)
    base = np.maximum(drawn @ of, 1)
    ratios = drawn @ found / base
    squares = drawn @ found**2 - 2 * ratios * (drawn @ (found * of)) + ratios**2 * (drawn @ of**2)
    errors = np.sqrt(np.maximum(squares, 0) * texts / (texts - 1)) / base
    # Rounding leaves a little of a spread of 0.
    return ratios, np.where(errors > 1e-12, errors, 0.0)
