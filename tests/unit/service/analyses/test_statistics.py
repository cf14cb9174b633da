"""Intervals hold the truth as often as they say, in seeded simulations, and are those of closed forms, of scipy, and by hand;
correlations as means over items."""

import math
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from bertscope.values.bootstrap import studentized
from bertscope_service.analyses import statistics
from bertscope_service.analyses.correlations import pearson_values, spearman_values
from bertscope_service.analyses.intervals import IntervalMethod, NoInterval, adjusted_wald
from bertscope_service.analyses.metrics import Bootstrap, Metric
from bertscope_service.analyses.statistics import Comparison, Resamples
from numpy.typing import NDArray
from scipy import stats
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


LOSSES = np.random.default_rng(5).normal(2, 1, size=(2, 60))


def interval(differences: NDArray[np.float64], settings: Bootstrap) -> tuple[float, float]:
    comparison = Comparison((Metric.LOSS,), np.zeros((1, len(differences))), settings)
    (effect,) = comparison.effects(differences[None])
    assert effect.low is not None and effect.high is not None
    return effect.low, effect.high


@pytest.mark.parametrize(
    ("metric", "method"),
    [
        (Metric.LOSS, IntervalMethod.STUDENTIZED_BOOTSTRAP),
        (Metric.RECIPROCAL_RANK, IntervalMethod.STUDENTIZED_BOOTSTRAP),
        (Metric.DIVERGENCE, IntervalMethod.STUDENTIZED_BOOTSTRAP),
        (Metric.ACCURACY, IntervalMethod.ADJUSTED_WALD),
    ],
)
def test_each_metric_has_its_method(metric: Metric, method: IntervalMethod) -> None:
    before, after = np.array([[0.0, 1, 1, 0, 0, 1, 0, 1]]), np.array([[1.0, 0, 1, 0, 1, 1, 1, 0]])
    (effect,) = Comparison((metric,), before, Bootstrap()).effects(after)
    assert (effect.method, effect.no_interval) == (method, None)
    by_method = {
        IntervalMethod.STUDENTIZED_BOOTSTRAP: lambda: studentized((after - before).T, Resamples(8, Bootstrap()), 0.95),
        IntervalMethod.ADJUSTED_WALD: lambda: adjusted_wald((after - before).T, 0.95),
    }
    low, high = by_method[method]()
    assert (effect.low, effect.high) == (max(low[0], 0.0) if metric is Metric.DIVERGENCE else low[0], high[0])


def test_intervals_end_where_metrics_do() -> None:
    before, after = np.zeros((2, 6)), np.array([[1.0, 1, 1, 0, 1, 1], [0.9, 1e-6, 0.2, 0.01, 0.3, 2]])
    rank, divergence = Comparison((Metric.RECIPROCAL_RANK, Metric.DIVERGENCE), before, Bootstrap()).effects(after)
    assert rank.high == 1.0 or rank.no_interval is NoInterval.TOO_FEW_DIFFER
    assert divergence.low == 0.0


@pytest.mark.parametrize(
    ("items", "resamples", "why"),
    [(4, 1000, NoInterval.TOO_FEW_ITEMS), (5, 100, NoInterval.TOO_FEW_RESAMPLES), (5, 1000, NoInterval.TOO_FEW_DIFFER)],
)
def test_where_there_is_no_interval_it_says_why(items: int, resamples: int, why: NoInterval) -> None:
    settings = Bootstrap(resamples, confidence=0.99)
    before, after = np.zeros((2, items)), np.zeros((2, items))
    after[:, 0] = 1
    loss, accuracy = Comparison((Metric.LOSS, Metric.ACCURACY), before, settings).effects(after)
    assert (loss.low, loss.high, loss.method, loss.no_interval) == (None, None, None, why)
    # An accuracy's needs neither resamples nor a spread.
    assert accuracy.no_interval is (why if items < 5 else None)


def test_resamples_that_are_not_kept_are_drawn_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "CHUNK_DRAWS", 600)
    kept = interval(LOSSES[0], Bootstrap(resamples=105))
    for size in (0, 1500):
        monkeypatch.setattr(statistics, "KEPT_BYTES", size)
        comparison = Comparison((Metric.LOSS,), np.zeros((1, 60)), Bootstrap(resamples=105))
        for _ in range(2):
            (effect,) = comparison.effects(LOSSES[:1])
            assert (effect.low, effect.high) == kept


def test_memory_does_not_grow_with_the_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "KEPT_BYTES", 1024 * 1024)
    tracemalloc.start()
    try:
        interval(np.random.default_rng(0).normal(size=2000), Bootstrap(resamples=4000))
        assert tracemalloc.get_traced_memory()[1] < 8 * 1024 * 1024
    finally:
        tracemalloc.stop()


def test_no_change_is_an_interval_of_nought() -> None:
    for effect in Comparison((Metric.LOSS, Metric.ACCURACY), LOSSES, Bootstrap()).unchanged():
        assert (effect.difference, effect.low, effect.high, effect.no_interval) == (0, 0, 0, None)
        assert effect.score == LOSSES[0 if effect.metric is Metric.LOSS else 1].mean()


BOTH = pytest.mark.parametrize(("values", "reference"), [(pearson_values, stats.pearsonr), (spearman_values, stats.spearmanr)])


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("items", [2, 5, 200])
@pytest.mark.parametrize("ties", [False, True])
def test_the_mean_is_the_correlation(values: Callable, reference: Callable, items: int, ties: bool) -> None:  # type: ignore[type-arg]
    generator = np.random.default_rng(items)
    gold = np.arange(items) / items if items < 5 else generator.normal(size=items)
    found = 3 * gold + generator.normal(size=items)
    if ties and items > 2:
        gold, found = np.round(gold), np.round(found)
    assert values(found, gold).mean() == pytest.approx(reference(found, gold).statistic, abs=1e-12)
    assert values(-found, gold).mean() == pytest.approx(-reference(found, gold).statistic, abs=1e-12)


@BOTH
@pytest.mark.parametrize("size", [1e308, 1e-300])
def test_numbers_of_any_size_have_the_same_correlation(values: Callable, reference: Callable, size: float) -> None:  # type: ignore[type-arg]
    found, gold = np.array([0.1, 0.4, 0.35, 0.8]), np.array([-1.0, -0.5, 0.25, 1.0])
    assert values(found, gold * size).mean() == pytest.approx(reference(found, gold).statistic, abs=1e-12)
    assert values(gold * size, found).mean() == pytest.approx(reference(found, gold).statistic, abs=1e-12)


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("ties", [False, True])
def test_the_spread_is_that_of_the_jackknife(values: Callable, reference: Callable, ties: bool) -> None:  # type: ignore[type-arg]
    generator = np.random.default_rng(1)
    gold = generator.normal(size=150)
    found = gold + generator.normal(size=150)
    if ties:
        gold, found = np.round(2 * gold), np.round(found)
    without = np.array([reference(np.delete(found, item), np.delete(gold, item)).statistic for item in range(150)])
    influence = 149 * (without.mean() - without)
    own = values(found, gold)
    assert np.corrcoef(own, influence)[0, 1] > 0.999
    assert own.std() == pytest.approx(influence.std(), rel=0.05)


@pytest.mark.parametrize("values", [pearson_values, spearman_values])
def test_a_constant_tells_nothing(values: Callable) -> None:  # type: ignore[type-arg]
    assert values(np.full(9, 0.1), np.arange(9.0)).tolist() == [0.0] * 9
