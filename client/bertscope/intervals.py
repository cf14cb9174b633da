"""Computes intervals of shares, of means, and of ratios of sums over texts, such as pairs found to pairs scored, and McNemar's
test."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
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
    """Returns the interval of sum(found) / sum(of) over texts, within `bounds`; None for fewer than five texts.

    It is a studentized bootstrap (Efron and Tibshirani 1993, section 12.5): texts are drawn with replacement, and the error of
    each resample's ratio is divided by its own standard error. Where texts are so alike that some resamples have no spread, it
    is the adjusted interval of Agresti and Coull (1998; Bonett and Price 2012 for differences): texts are added at both bounds,
    z**2 / 2 at each end of a share and half as many of a difference. Raises InvalidArgument for a confidence outside 0.5 to
    0.999.
    """
    return best_interval(found[:, None], of, 0, bounds, confidence=confidence, resamples=resamples, seed=seed)


def share_interval(found: Values, of: Values, *, confidence: float = 0.95) -> Interval:
    """Returns the interval of the share sum(found) / sum(of) over texts, as `ratio_interval` does, and the adjusted one for
    fewer than five texts; 0 to 1 without anything to find."""
    level = _level(confidence)
    if not of.sum():
        return Interval(0.0, 1.0)
    adjusted = _adjusted(found, of, np.ones(len(of), np.int64), (0.0, 1.0), level)
    return ratio_interval(found, of, (0.0, 1.0), confidence=level) or adjusted


def best_interval(
    found: Values,
    of: Values,
    best: int,
    bounds: tuple[float, float],
    *,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval | None:
    """Returns the interval of one of several ratios, sum(found[:, best]) / sum(of), that was chosen because it is high on these
    texts: found is [texts, candidates]. With one candidate it is `ratio_interval`.

    The errors of all candidates hold at once (max-T, Westfall and Young 1993, section 2.5): in each resample the largest and
    the smallest studentized error count. Where the chosen one has no spread, its adjusted interval is at the confidence that
    Bonferroni's correction asks for.
    """
    level = _level(confidence)
    count = _validation.positive("resamples", resamples)
    if len(found) < MIN_TEXTS or not of.sum():
        return None
    # Texts with the same numbers are drawn together: there are few different ones of one candidate.
    columns, times = np.unique(np.column_stack([found, of]), axis=0, return_counts=True)
    found, of, texts = columns[:, :-1], columns[:, -1], int(times.sum())
    ratios, errors = (values[0] for values in _ratios(times[None].astype(np.float64), found, of))
    family = np.flatnonzero(errors > 0)
    ratio, error = float(ratios[best]), float(errors[best])
    adjusted = partial(_adjusted, found[:, best], of, times, bounds, 1 - (1 - level) / found.shape[1])
    if not error:
        return adjusted()
    generator = np.random.default_rng(_validation.uint64("seed", seed))
    found, ratios = found[:, family], ratios[family]
    own = int(np.searchsorted(family, best))
    step = max(1, CELLS // (len(found) + 4 * len(family)))
    largest, smallest, degenerate = [], [], 0
    for start in range(0, count, step):
        drawn = generator.multinomial(texts, times / texts, min(step, count - start))
        values, spreads = _ratios(drawn.astype(np.float64), found, of)
        with np.errstate(divide="ignore", invalid="ignore"):
            scaled = np.where(spreads > 0, (values - ratios) / spreads, np.nan)
        degenerate += int(np.isnan(scaled[:, own]).sum())
        some = scaled[~np.isnan(scaled).all(axis=1)]
        largest.append(np.nanmax(some, axis=1))
        smallest.append(np.nanmin(some, axis=1))
    if degenerate > MAX_DEGENERATE * count:
        return adjusted()
    below = float(np.quantile(np.concatenate(smallest), (1 - level) / 2))
    above = float(np.quantile(np.concatenate(largest), (1 + level) / 2))
    low, high = np.clip([ratio - above * error, ratio - below * error], *bounds)
    return Interval(float(low), float(high))


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
    ones there are, as the relations of LAMA. Of differences item by item it is a paired bootstrap. Where values are too alike,
    it is the adjusted interval, whose added values the groups share. None where they are too few: below 5, or one alone in its
    group. Raises InvalidArgument for a confidence outside 0.5 to 0.999.
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
    spread = errors[1:] > 0
    if not errors[0] or np.mean(~spread) > MAX_DEGENERATE:
        return _adjusted_mean(groups, bounds, level)
    scaled = (means[1:][spread] - means[0]) / errors[1:][spread]
    below, above = np.quantile(scaled, [(1 - level) / 2, (1 + level) / 2])
    low, high = np.clip([means[0] - above * errors[0], means[0] - below * errors[0]], *bounds)
    return Interval(float(low), float(high))


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


def _level(confidence: float) -> float:
    level = _validation.finite_number("confidence", confidence)
    if not MIN_CONFIDENCE <= level <= MAX_CONFIDENCE:
        raise invalid_argument("confidence", f"must be {MIN_CONFIDENCE} to {MAX_CONFIDENCE}, not {level:g}")
    return level


def _adjusted(found: Values, of: Values, times: npt.NDArray[np.int64], bounds: tuple[float, float], level: float) -> Interval:
    """Returns the adjusted interval of a ratio: Wald's, after texts with as many pairs as the mean were added at the bounds."""
    low, high = bounds
    quantile = NormalDist().inv_cdf((1 + level) / 2)
    # z^2 / 2 at each bound of a share is Agresti and Coull's; a difference, twice as wide, takes half of it.
    extra, size = quantile**2 / (2 * (high - low)), times @ of / times[of > 0].sum()
    drawn = np.concatenate([times, [extra, extra]])[None]
    values = np.concatenate([found, [low * size, high * size]])[:, None]
    ratios, errors = _ratios(drawn, values, np.concatenate([of, [size, size]]))
    middle, reach = float(ratios[0, 0]), quantile * float(errors[0, 0])
    value = float(times @ found / (times @ of))
    # Rounding must not put the ratio outside.
    return Interval(max(low, min(value, middle - reach)), min(high, max(value, middle + reach)))


def _adjusted_mean(groups: Sequence[Values], bounds: tuple[float, float], level: float) -> Interval:
    """Returns the adjusted interval of the mean of groups' means; see `_adjusted`."""
    low, high = bounds
    quantile = NormalDist().inv_cdf((1 + level) / 2)
    extra, middle, variance = quantile**2 / (2 * (high - low) * len(groups)), 0.0, 0.0
    for values in groups:
        size = len(values) + 2 * extra
        mean = (float(values.sum()) + extra * (low + high)) / size
        squares = (float((values**2).sum()) + extra * (low**2 + high**2)) / size
        middle += mean / len(groups)
        variance += max(squares - mean**2, 0.0) / (size - 1) / len(groups) ** 2
    reach, value = quantile * math.sqrt(variance), float(np.mean([values.mean() for values in groups]))
    return Interval(max(low, min(value, middle - reach)), min(high, max(value, middle + reach)))


def _ratios(drawn: Values, found: Values, of: Values) -> tuple[Values, Values]:
    """Returns [rows, candidates]: for each row of how often texts are drawn, the ratios of the sums of found, [texts,
    candidates], and their standard errors, by linearisation."""
    texts = drawn.sum(1)[:, None]
    base = np.maximum(drawn @ of, 1)[:, None]
    ratios = drawn @ found / base
    squares = drawn @ found**2 - 2 * ratios * (drawn @ (found * of[:, None])) + ratios**2 * (drawn @ of**2)[:, None]
    errors = np.sqrt(np.maximum(squares, 0) * texts / (texts - 1)) / base
    # Rounding leaves a little of a spread of 0.
    return ratios, np.where(errors > 1e-12, errors, 0.0)
