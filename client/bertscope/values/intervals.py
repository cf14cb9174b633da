"""Computes intervals of shares, of means, and of ratios of sums over texts, such as pairs found to pairs scored."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bertscope.errors import invalid_argument
from bertscope.values import validation
from bertscope.values.bootstrap import MIN_ITEMS, SPREADLESS, over_spread, resampled, student_quantile, studentized_ends

__all__ = ["Interval"]

RESAMPLES = 10_000
MIN_CONFIDENCE, MAX_CONFIDENCE = 0.5, 0.999
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

    It is the studentized bootstrap of `bertscope.values.bootstrap`, which the service has for means and their ratios: texts
    are drawn with replacement. Where texts are so alike that an end falls among resamples without a spread, it is the
    adjusted interval of Agresti and Coull (1998; Bonett and Price 2012 for differences): texts are added at both bounds, z**2
    / 2 at each end of a share and half as many of a difference. Raises InvalidArgument for a confidence outside 0.5 to 0.999.
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
    count = validation.positive("resamples", resamples)
    if len(found) < MIN_ITEMS or not of.sum():
        return None
    # Texts with the same numbers are drawn together: there are few different ones of one candidate.
    columns, times = np.unique(np.column_stack([found, of]), axis=0, return_counts=True)
    found, of, texts = columns[:, :-1], columns[:, -1], int(times.sum())
    generator = np.random.default_rng(validation.uint64("seed", seed))
    step = max(1, CELLS // (len(found) + 4 * found.shape[1]))
    rows = (min(step, count - start) for start in range(0, count, step))
    drawn = (generator.multinomial(texts, times / texts, size).astype(np.float64) for size in rows)
    value, error, ratios = resampled(found, drawn, of, times.astype(np.float64))
    own = ratios[:, best]
    # A resample of equal texts is beyond any quantile of the chosen candidate, and says nothing of the others.
    others = np.where(np.isfinite(ratios), ratios, 0.0)
    lowest, highest = np.minimum(own, others.min(axis=1)), np.maximum(own, others.max(axis=1))
    ends = studentized_ends(value[best], error[best], lowest, highest, texts - 1, level)
    if np.isnan(ends).any():
        return _adjusted(found[:, best], of, times, bounds, 1 - (1 - level) / found.shape[1])
    return Interval(*map(float, np.clip(ends, *bounds)))


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
    count = validation.positive("resamples", resamples)
    if sum(map(len, groups)) < MIN_ITEMS or min(map(len, groups)) < 2:
        return None
    generator = np.random.default_rng(validation.uint64("seed", seed))
    moved, spread, variances = np.zeros(count), np.zeros(count), []
    smallest, rounding = 0.0, 0.0
    for values in groups:
        different, times = np.unique(values, return_counts=True)
        residuals, size = different - values.mean(), len(values)
        share = 1 / (size * len(groups))
        sums, step = np.stack([residuals, residuals**2], axis=1), max(1, CELLS // len(different))
        for start in range(0, count, step):
            rows = slice(start, min(start + step, count))
            drawn = generator.multinomial(size, times / size, rows.stop - rows.start).astype(np.float64)
            off, squares = (drawn @ sums).T
            moved[rows] += share * off
            spread[rows] += share**2 * (squares - off**2 / size) * size / (size - 1)
        variances.append(share**2 * float(times @ residuals**2) * size / (size - 1))
        smallest += SPREADLESS * (share * float(np.abs(residuals).max())) ** 2
        rounding += (SPREADLESS * share * float(np.abs(values).max())) ** 2
    value, variance = float(np.mean([values.mean() for values in groups])), sum(variances)
    if variance > rounding:
        ratios = over_spread(moved, spread, smallest)
        # Welch and Satterthwaite's degrees of freedom.
        degrees = variance**2 / sum(each**2 / (len(values) - 1) for each, values in zip(variances, groups, strict=True))
        ends = studentized_ends(value, math.sqrt(variance), ratios, ratios, degrees, level)
        if not np.isnan(ends).any():
            return Interval(*map(float, np.clip(ends, *bounds)))
    return _adjusted_mean(groups, bounds, level)


def mean_intervals(
    sums: Values, squares: Values, items: int, *, confidence: float = 0.95, degrees: int | None = None
) -> tuple[Interval, ...] | None:
    """Returns the interval of each of several means, from sums over items and sums of squares, by Student's t with so many
    degrees of freedom (items - 1 unless given); None for fewer than five items. Raises InvalidArgument for a confidence outside
    0.5 to 0.999."""
    level = _level(confidence)
    if items < MIN_ITEMS:
        return None
    means = sums / items
    # Rounding can make a variance of 0 slightly negative.
    variances = np.maximum(squares - sums * means, 0) / (items - 1)
    reach = student_quantile(degrees or items - 1, (1 + level) / 2) * np.sqrt(variances / items)
    return tuple(map(Interval, (means - reach).tolist(), (means + reach).tolist()))


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


def _level(confidence: float) -> float:
    level = validation.finite_number("confidence", confidence)
    if not MIN_CONFIDENCE <= level <= MAX_CONFIDENCE:
        raise invalid_argument("confidence", f"must be {MIN_CONFIDENCE} to {MAX_CONFIDENCE}, not {level:g}")
    return level


def _adjusted(found: Values, of: Values, times: npt.NDArray[np.int64], bounds: tuple[float, float], level: float) -> Interval:
    """Returns the adjusted interval of a ratio: Wald's, after texts with as many pairs as the mean were added at the bounds."""
    low, high = bounds
    quantile = NormalDist().inv_cdf((1 + level) / 2)
    # z^2 / 2 at each bound of a share is Agresti and Coull's; a difference, twice as wide, takes half of it.
    extra, size = quantile**2 / (2 * (high - low)), times @ of / times[of > 0].sum()
    values, sizes = np.concatenate([found, [low * size, high * size]]), np.concatenate([of, [size, size]])
    ratios, errors, _ = resampled(values[:, None], [np.zeros((0, len(values)))], sizes, np.concatenate([times, [extra, extra]]))
    middle, reach = float(ratios[0]), quantile * float(errors[0])
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
