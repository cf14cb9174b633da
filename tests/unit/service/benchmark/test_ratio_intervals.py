"""Intervals of ratios hold the truth as often as they say, in seeded simulations; and against formulas written out."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from bertscope_service.analyses.intervals import IntervalMethod, NoInterval, hybrid_wilson, studentized_ratio
from bertscope_service.analyses.metrics import Bootstrap
from bertscope_service.analyses.statistics import Resamples
from bertscope_service.benchmark.timings import Ratio, ratio_of_means, ratio_of_proportions
from numpy.typing import NDArray
from scipy.stats import t

Floats = NDArray[np.float64]
Pair = tuple[Floats, Floats]
Draw = Callable[[np.random.Generator, tuple[int, int]], Pair]
Interval = Callable[[Floats, Floats, int], Pair]

AT_A_TIME = 500
"""Data sets of a simulation, which share their resamples."""


def correlated(generator: np.random.Generator, shape: tuple[int, int]) -> Pair:
    """Losses of the same items: log-normal, and multiplied by what changed."""
    before = generator.lognormal(0, 1, shape)
    return before * np.exp(generator.normal(0.1, 0.3, shape)), before


def right(before: float, kept: float, won: float) -> Draw:
    """Items that were right, and those of them and of the others that are so afterwards."""

    def draw(generator: np.random.Generator, shape: tuple[int, int]) -> Pair:
        was, share = generator.random(shape) < before, generator.random(shape)
        return np.where(was, share < kept, share < won).astype(float), was.astype(float)

    return draw


def studentized(above: Floats, below: Floats, seed: int) -> Pair:
    return studentized_ratio(above, below, Resamples(len(above), Bootstrap(1000, seed)), 0.95)


def wilson(above: Floats, below: Floats, seed: int) -> Pair:
    return hybrid_wilson(above, below, 0.95)


def covered(draw: Draw, truth: float, items: int, interval: Interval) -> float:
    """Share of the intervals that hold the truth, of data sets that have a ratio."""
    above, below = draw(np.random.default_rng([0, items]), (items, AT_A_TIME))
    some = below.any(axis=0)
    low, high = interval(above[:, some], below[:, some], 0)
    assert not np.isnan(low).any()
    assert not np.isnan(high).any()
    return float(((low <= truth + 1e-12) & (truth - 1e-12 <= high)).mean())


@pytest.mark.parametrize(
    ("draw", "truth", "interval"), [(correlated, math.exp(0.145), studentized), (right(0.8, 0.9, 0.0), 0.9, wilson)]
)
def test_ratios_hold_the_truth(draw: Draw, truth: float, interval: Interval) -> None:
    """About as often as they say; docs/statistics.md has the large simulations."""
    assert covered(draw, truth, 8, interval) > 0.9


def test_studentized_by_hand() -> None:
    """Each resample written out: the logarithm of its ratio, and the standard error that the delta method gives it."""
    above, below = (column[:, 0] for column in correlated(np.random.default_rng(3), (12, 1)))

    def ratio(first: Floats, second: Floats) -> tuple[float, float]:
        error = math.sqrt(((first / first.mean() - second / second.mean()) ** 2).sum()) / len(first)
        return math.log(first.mean() / second.mean()), error

    value, error = ratio(above, below)
    counts = list(Resamples(12, Bootstrap(999, 1)))
    off = []
    for row in np.concatenate(counts):
        chosen = np.repeat(np.arange(12), row.astype(int))
        drawn, spread = ratio(above[chosen], below[chosen])
        off.append((drawn - value) / spread)
    off.sort()
    reach = t.ppf(0.975, 11) * math.sqrt(12 / 11)
    low, high = studentized_ratio(above[:, None], below[:, None], counts, 0.95)
    assert low[0] == pytest.approx(math.exp(value - max(off[974], reach) * error))
    assert high[0] == pytest.approx(math.exp(value - min(off[24], -reach) * error))


def test_it_does_not_matter_which_is_above_nor_the_unit() -> None:
    above, below = correlated(np.random.default_rng(4), (9, 3))
    low, high = studentized(above, below, 0)
    swapped = studentized(below, above, 0)
    assert np.allclose(swapped, (1 / high, 1 / low))
    assert np.allclose(studentized(1e-3 * above, 1e6 * below, 0), (1e-9 * low, 1e-9 * high))


def test_tiny_changes_keep_their_digits() -> None:
    """What 1e-6 of the losses makes is a ten-thousandth of what 1e-2 makes, and its interval, too."""
    generator = np.random.default_rng(5)
    below, change = generator.lognormal(0, 1, (10, 1)), generator.normal(0, 1, (10, 1))
    large, small = (np.log(studentized(below * (1 + by * change), below, 0)) / by for by in (1e-4, 1e-8))
    assert large == pytest.approx(small, rel=1e-2)


def test_hybrid_wilson_by_hand() -> None:
    """Of 20 items 10 are right both times, 6 only before, 1 only after, 3 never."""
    above = np.array([1.0] * 10 + [0] * 6 + [1] + [0] * 3)
    below = np.array([1.0] * 16 + [0] * 4)
    up, down, items = 11, 16, 17
    error = math.sqrt((6 + 1 + 2) / ((up + 1) * (down + 1)))
    apart = [math.sqrt((1 - (one + 1) / (items + 2)) / (one + 1)) for one in (up, down)]
    z = 1.959964 * error / sum(apart)

    def bounds(one: int) -> list[float]:
        root = z * math.sqrt(z**2 + 4 * one * (1 - one / items))
        return [(2 * one + z**2 + sign * root) / (2 * (items + z**2)) for sign in (-1, 1)]

    low, high = hybrid_wilson(above[:, None], below[:, None], 0.95)
    assert low[0] == pytest.approx(bounds(up)[0] / bounds(down)[1], rel=1e-5)
    assert high[0] == pytest.approx(bounds(up)[1] / bounds(down)[0], rel=1e-5)


def test_what_has_no_interval_says_why() -> None:
    some, none, few = np.array([1.0, 2, 3, 4, 6]), np.zeros(5), Bootstrap(100, 0, 0.999)
    assert ratio_of_means(some, none, Bootstrap()) is None
    assert ratio_of_proportions(none, none, 0.95) is None
    one = np.array([1.0, 2, 3, 4, 9])
    found = {
        NoInterval.TOO_FEW_ITEMS: ratio_of_means(some[:4], one[:4] + 1, Bootstrap()),
        NoInterval.MEAN_NOT_POSITIVE: ratio_of_means(none, some, Bootstrap()),
        NoInterval.TOO_FEW_RESAMPLES: ratio_of_means(some, some[::-1], few),
        NoInterval.TOO_FEW_DIFFER: ratio_of_means(one, some, Bootstrap()),
    }
    for why, ratio in found.items():
        assert ratio is not None
        assert (ratio.low, ratio.high, ratio.method, ratio.no_interval) == (0.0, math.inf, None, why)
    assert ratio_of_means(-some, some, Bootstrap()) == Ratio.without_interval(-1.0, NoInterval.MEAN_NOT_POSITIVE)
    assert ratio_of_means(2 * some, some, Bootstrap()) == Ratio.without_interval(2.0, NoInterval.TOO_FEW_DIFFER)
    four = ratio_of_proportions(np.ones(4), np.ones(4), 0.95)
    assert four == Ratio.without_interval(1.0, NoInterval.TOO_FEW_ITEMS)


def test_accuracies_of_0_and_of_no_change_have_intervals() -> None:
    """Of so few items, nothing lost does not say that nothing would ever be lost."""
    right, never = np.ones(8), np.zeros(8)
    same, lost = ratio_of_proportions(right, right, 0.95), ratio_of_proportions(never, right, 0.95)
    assert same is not None
    assert same.low < 0.9
    assert same.high > 1.1
    assert lost is not None
    assert (lost.value, lost.low, lost.method) == (0.0, 0.0, IntervalMethod.HYBRID_WILSON)
    assert 0.2 < lost.high < 0.7
    rare = ratio_of_proportions(right, np.array([1.0, 0, 0, 0, 0, 0, 0, 0]), 0.95)
    assert rare is not None
    assert 8.0 < rare.high < math.inf
