"""Intervals against distributions that are known in closed form, against scipy, and by hand."""

import tracemalloc

import numpy as np
import pytest
from bertscope.values.bootstrap import studentized
from bertscope_service.analyses import statistics
from bertscope_service.analyses.intervals import IntervalMethod, NoInterval, adjusted_wald
from bertscope_service.analyses.metrics import Bootstrap, Metric
from bertscope_service.analyses.statistics import Comparison, Resamples
from numpy.typing import NDArray

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
