"""The studentized bootstrap over groups, Student's t and McNemar's test; the service's tests of intervals have the rest."""

import math

import numpy as np
import pytest
from bertscope.values.bootstrap import mcnemar, resampled, student_quantile, student_tail
from scipy.stats import binomtest, t


@pytest.mark.slow
@pytest.mark.parametrize("degrees", [4, 5, 9.3, 29, 58, 59, 871, 1e6])
@pytest.mark.parametrize("probability", [0.75, 0.975, 0.9995])
def test_quantiles_are_those_of_students_t(degrees: float, probability: float) -> None:
    assert student_quantile(degrees, probability) == pytest.approx(t.ppf(probability, degrees), rel=1e-7)


@pytest.mark.parametrize("degrees", [1, 4, 29.5, 5000])
@pytest.mark.parametrize("quantile", [-2, 0, 0.3, 2, 9, 40])
def test_tails_of_students_t_are_those_of_scipy(degrees: float, quantile: float) -> None:
    assert student_tail(quantile, degrees) == pytest.approx(t.sf(quantile, degrees), rel=1e-6, abs=1e-300)


def test_items_that_are_the_same_may_be_one_row() -> None:
    """Rows with the number of times that each is in the sample are the items themselves."""
    generator = np.random.default_rng(5)
    totals, sizes = generator.random((6, 3)), generator.integers(1, 4, 6).astype(float)
    times = np.array([3.0, 1, 1, 2, 4, 1])
    drawn = generator.multinomial(12, times / 12, 40).astype(float)
    rows = np.repeat(np.arange(6), times.astype(int))
    first = np.append(0, np.cumsum(times)[:-1]).astype(int)
    apart = np.zeros((40, 12))
    apart[:, first] = drawn
    together, alone = resampled(totals, [drawn], sizes, times), resampled(totals[rows], [apart], sizes[rows])
    for found, expected in zip(together, alone, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_mcnemar_is_scipys_binomial_test() -> None:
    for lost, won in ((12, 31), (400, 470), (0, 900), (5000, 4800), (86, 150)):
        assert mcnemar(lost, won) == pytest.approx(binomtest(lost, lost + won, 0.5).pvalue, rel=1e-9)
    assert 0 < mcnemar(10, 900) < 1e-200 and math.isfinite(mcnemar(100_000, 90_000))
