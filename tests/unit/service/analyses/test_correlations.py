"""Correlations as means over items: equal to scipy's, and as influential as the jackknife says."""

from collections.abc import Callable

import numpy as np
import pytest
from bertscope_service.analyses.correlations import pearson_values, spearman_values
from scipy import stats

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
