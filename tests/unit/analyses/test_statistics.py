"""Intervals and p-values against distributions that are known in closed form, against scipy, and by hand."""

import tracemalloc

import numpy as np
import pytest
from bertscope_service.analyses import statistics
from bertscope_service.analyses.ablation import Bootstrap, Metric
from bertscope_service.analyses.statistics import Comparison, mcnemar
from numpy.typing import NDArray
from scipy.stats import binom, binomtest, bootstrap

LOSSES = np.random.default_rng(5).normal(2, 1, size=(2, 60))


def interval(differences: NDArray[np.float64], settings: Bootstrap) -> tuple[float, float]:
    comparison = Comparison((Metric.LOSS,), np.zeros((1, len(differences))), settings)
    (effect,) = comparison.effects(differences[None])
    assert effect.low is not None and effect.high is not None
    return effect.low, effect.high


def test_scores_are_means_and_differences_are_after_minus_before() -> None:
    before, after = np.array([[0.0, 1, 1, 1], [4.0, 3, 2, 1]]), np.array([[1.0, 0, 0, 1], [4.0, 4, 3, 3]])
    accuracy, loss = Comparison((Metric.ACCURACY, Metric.LOSS), before, Bootstrap()).effects(after)
    assert (accuracy.metric, accuracy.score, accuracy.difference) == (Metric.ACCURACY, 0.5, -0.25)
    assert (loss.metric, loss.score, loss.difference) == (Metric.LOSS, 3.5, 1.0)
    assert accuracy.mcnemar_p == 1.0
    assert loss.mcnemar_p is None


def test_interval_of_a_share_is_that_of_the_binomial() -> None:
    """Resampled sums of 20 ones among 50 items are binomial(50, 0.4), whose quantiles are known exactly."""
    found = interval(np.array([1.0] * 20 + [0.0] * 30), Bootstrap(resamples=100_000))
    assert found == pytest.approx((binom.ppf(0.025, 50, 0.4) / 50, binom.ppf(0.975, 50, 0.4) / 50))


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_interval_is_scipys_percentile_interval(confidence: float) -> None:
    differences = LOSSES[1] - LOSSES[0]
    found = interval(differences, Bootstrap(resamples=50_000, confidence=confidence))
    expected = bootstrap(
        (differences,), np.mean, n_resamples=50_000, method="percentile", confidence_level=confidence, rng=1
    ).confidence_interval
    assert found == pytest.approx((expected.low, expected.high), abs=0.03)


def test_every_effect_has_the_same_resamples() -> None:
    """So the interval moves and scales with the differences, exactly."""
    comparison = Comparison((Metric.LOSS,), np.zeros((1, 60)), Bootstrap(seed=3))
    differences = LOSSES[0]
    (one,), (shifted,), (scaled,), (again,) = (
        comparison.effects(values[None]) for values in (differences, differences + 5, differences * -2, differences)
    )
    assert one == again
    assert one.low is not None and one.high is not None
    assert (shifted.low, shifted.high) == pytest.approx((one.low + 5, one.high + 5))
    assert (scaled.low, scaled.high) == pytest.approx((-2 * one.high, -2 * one.low))


def test_a_seed_says_which_resamples() -> None:
    assert interval(LOSSES[0], Bootstrap(seed=7)) == interval(LOSSES[0], Bootstrap(seed=7))
    assert interval(LOSSES[0], Bootstrap(seed=7)) != interval(LOSSES[0], Bootstrap(seed=2**64 - 1))


def test_each_resample_has_as_many_items_as_there_are() -> None:
    """A constant difference has no spread."""
    assert interval(np.full(300, 0.25), Bootstrap(resamples=1000)) == pytest.approx((0.25, 0.25), abs=1e-12)


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


def test_no_difference_is_an_interval_of_nought() -> None:
    before = LOSSES
    for effect in Comparison((Metric.LOSS, Metric.DIVERGENCE), before, Bootstrap()).effects(before):
        assert (effect.difference, effect.low, effect.high) == (0, 0, 0)


def test_a_single_item_has_no_interval() -> None:
    before, after = np.array([[1.0], [2.0]]), np.array([[0.0], [2.5]])
    accuracy, loss = Comparison((Metric.ACCURACY, Metric.LOSS), before, Bootstrap()).effects(after)
    assert (accuracy.low, accuracy.high, loss.low, loss.high) == (None, None, None, None)
    assert (accuracy.difference, loss.difference, accuracy.mcnemar_p) == (-1, 0.5, 1)


def series(lost: int, won: int, same: int = 4) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Right before and wrong after, wrong before and right after, and unchanged items."""
    before = [1.0] * lost + [0.0] * won + [1.0, 0.0] * same
    after = [0.0] * lost + [1.0] * won + [1.0, 0.0] * same
    return np.array(before), np.array(after)


@pytest.mark.parametrize(
    ("lost", "won", "p"),
    [(0, 0, 1.0), (3, 3, 1.0), (0, 5, 2 / 32), (5, 0, 2 / 32), (1, 7, 18 / 256), (3, 10, 756 / 8192), (10, 3, 756 / 8192)],
)
def test_mcnemar_by_hand(lost: int, won: int, p: float) -> None:
    assert mcnemar(*series(lost, won)) == pytest.approx(p, rel=1e-12)


def test_mcnemar_is_scipys_binomial_test() -> None:
    for lost, won in ((12, 31), (400, 470), (0, 900), (5000, 4800), (86, 150)):
        assert mcnemar(*series(lost, won)) == pytest.approx(binomtest(lost, lost + won, 0.5).pvalue, rel=1e-9)
