"""Intervals hold the truth as often as they say, in seeded simulations; and against formulas written out."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from bertscope.values.bootstrap import studentized
from bertscope_service.analyses.intervals import adjusted_wald
from bertscope_service.analyses.metrics import Bootstrap
from bertscope_service.analyses.statistics import Resamples
from numpy.typing import NDArray
from scipy.stats import norm, t

Floats = NDArray[np.float64]

SEEDS, AT_A_TIME, ITEMS = 4, 500, 8
SETS = SEEDS * AT_A_TIME
"""Data sets of the simulation; those of one seed share their resamples, as the effects of a sweep do."""


def covered(interval: Callable[[Floats, int], tuple[Floats, Floats]]) -> float:
    """Share of the intervals given that hold the truth, for log-normal items; at least 0.4 of the data sets have one."""
    holds, given, truth = 0, 0, math.exp(0.5)
    for seed in range(SEEDS):
        low, high = interval(np.random.default_rng([seed, ITEMS]).lognormal(0, 1, (ITEMS, AT_A_TIME)), seed)
        holds += int(((low <= truth) & (truth <= high)).sum())
        given += int((~np.isnan(low)).sum())
    assert given > 0.4 * SETS
    return holds / given


def bootstrap_t(values: Floats, seed: int) -> tuple[Floats, Floats]:
    return studentized(values, Resamples(len(values), Bootstrap(1000, seed)), 0.95)


def percentiles(values: Floats, seed: int) -> tuple[Floats, Floats]:
    means = np.concatenate([counts @ values / len(values) for counts in Resamples(len(values), Bootstrap(1000, seed))])
    low, high = np.quantile(means, [0.025, 0.975], axis=0)
    return low, high


def test_intervals_of_means_hold_the_truth() -> None:
    """Of skewed items; docs/statistics.md has the table of all draws.
    Nothing holds 95 % for few log-normal items; percentiles are far below."""
    found = covered(bootstrap_t)
    assert found >= 0.90 - 3 * math.sqrt(0.90 * 0.10 / SETS)
    assert covered(percentiles) < 0.82 < found


@pytest.mark.slow
def test_intervals_of_means_over_places_of_texts_hold_the_truth() -> None:
    """Texts are what is drawn; they have 1 to 9 places, and the longer ones lie higher."""
    holds, truth = 0, 0.2 * (np.arange(1, 10) ** 2).mean() / 5
    for seed in range(200):
        generator = np.random.default_rng(seed)
        sizes = generator.integers(1, 10, size=20).astype(float)
        totals = 0.2 * sizes**2 * generator.exponential(1, size=20)
        low, high = studentized(totals[:, None], Resamples(20, Bootstrap(1000, seed)), 0.95, sizes)
        holds += int(low[0] <= truth <= high[0])
    assert holds / 200 >= 0.93 - 3 * math.sqrt(0.93 * 0.07 / 200)


def test_studentized_by_hand() -> None:
    """Each resample written out: its mean, its own standard error, and the (R + 1) p th of their ratios."""
    values = np.random.default_rng(3).lognormal(0, 1, 12)
    counts = list(Resamples(12, Bootstrap(999, 1)))
    ratios = []
    for row in np.concatenate(counts):
        drawn = np.repeat(values, row.astype(int))
        ratios.append((drawn.mean() - values.mean()) / (drawn.std() / math.sqrt(12)))
    ratios.sort()
    error = values.std() / math.sqrt(12)
    reach = t.ppf(0.975, 11) * values.std(ddof=1) / math.sqrt(12)
    low, high = studentized(values[:, None], counts, 0.95)
    assert low[0] == pytest.approx(min(values.mean() - ratios[974] * error, values.mean() - reach))
    assert high[0] == pytest.approx(max(values.mean() - ratios[24] * error, values.mean() + reach))
    # This sample is skewed to the right: the bootstrap knows, Student's t does not.
    assert high[0] > values.mean() + 1.2 * reach


def test_equal_sizes_are_a_mean() -> None:
    values, counts = np.random.default_rng(1).normal(size=(20, 3)), list(Resamples(20, Bootstrap()))
    plain, sized = studentized(values, counts, 0.95), studentized(values * 7, counts, 0.95, np.full(20, 7.0))
    np.testing.assert_allclose(sized, plain, rtol=1e-9)


def test_adjusted_wald_by_hand() -> None:
    """Of 12 items 5 were lost and 1 was won: (6 and 2) of 14."""
    values = np.array([-1.0] * 5 + [1.0] + [0.0] * 6)
    lost, won = 6 / 14, 2 / 14
    error = math.sqrt((lost + won - (won - lost) ** 2) / 14)
    low, high = adjusted_wald(values[:, None], 0.9)
    reach = norm.ppf(0.95) * error
    assert (low[0], high[0]) == pytest.approx((won - lost - reach, won - lost + reach))


@pytest.mark.parametrize("moved", [0, 1, 2])
def test_few_items_that_differ_are_too_few(moved: int) -> None:
    """Many resamples hold none of them, and have no spread of their own."""
    values = np.zeros((20, 2))
    values[:moved, 0] = [0.5, 0.75][:moved]
    values[:, 1] = np.arange(20)
    low, high = studentized(values, Resamples(20, Bootstrap()), 0.95)
    assert np.isnan([low[0], high[0]]).all()
    assert low[1] < 9.5 < high[1]


def test_rounding_is_no_spread() -> None:
    values = np.full((20, 1), 0.1) + np.random.default_rng(0).integers(-2, 3, size=(20, 1)) * 1e-17
    assert np.isnan(studentized(values + 1e3, Resamples(20, Bootstrap()), 0.95)).all()


def test_scale_and_place_change_nothing() -> None:
    values, counts = np.random.default_rng(2).lognormal(size=(15, 1)), list(Resamples(15, Bootstrap()))
    low, high = studentized(values, counts, 0.95)
    for factor, shift in ((1e-9, 0.0), (1e9, -5.0), (1.0, 1e4)):
        found = studentized(values * factor + shift, counts, 0.95)
        np.testing.assert_allclose(np.array(found) - shift, np.array([low, high]) * factor, rtol=1e-6)
    mirrored = studentized(-values, counts, 0.95)
    np.testing.assert_allclose((mirrored[0], mirrored[1]), (-high, -low), rtol=1e-9)
