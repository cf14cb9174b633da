"""Intervals of measurements hold their number as often as they say, and groups of alike items count once."""

import math

import numpy as np
import pytest
from bertscope_workbench.papers.estimates import NotAsked, bootstrapped, paired, shares

DRAWS = 400
FEWEST = 0.91
"""Of 400 intervals of 95 %, fewer than this share would hold once in 3,000 times."""


def test_a_bootstrap_of_a_mean_has_the_interval_of_the_normal_law() -> None:
    drawn = np.random.default_rng(3).normal(size=400)
    found = bootstrapped(lambda own: float(drawn[own].mean()), 400, resamples=1000, data="drawn")
    error = drawn.std() / 20
    assert found.value == pytest.approx(drawn.mean())
    assert (found.low, found.high) == pytest.approx((found.value - 1.96 * error, found.value + 1.96 * error), abs=0.25 * error)


@pytest.mark.slow
def test_items_of_a_group_count_once() -> None:
    generator = np.random.default_rng(2)
    held = 0
    for _ in range(DRAWS):
        groups = np.repeat(np.arange(20), 10)
        values = np.repeat(generator.normal(0.5, 1, 20), 10) + generator.normal(0, 0.1, 200)
        found = paired(values, 0.0, groups=groups.tolist(), data="drawn")
        assert found.items == 20
        held += found.low <= 0.5 <= found.high
    assert held / DRAWS > FEWEST


def test_a_share_beside_chance() -> None:
    found = shares([True] * 75 + [False] * 25, 0.5, data="made")
    assert (found.value, found.control, found.difference) == (0.75, 0.5, 0.25)
    assert found.low == pytest.approx(0.6569 - 0.5, abs=1e-3)  # Wilson's interval of 75 of 100
    assert found.high == pytest.approx(0.8246 - 0.5, abs=1e-3)


def test_items_without_a_number_are_left_out() -> None:
    found = paired([1.0, math.nan, 3.0, 4.0, 5.0, 6.0], [0.0, 0.0, math.nan, 1.0, 1.0, 1.0], data="made")
    assert (found.items, found.difference) == (4, pytest.approx((1 + 3 + 4 + 5) / 4))
    assert math.isnan(found.low)


def test_no_item_is_not_asked() -> None:
    for ask in (
        lambda: paired([], data="none"),
        lambda: shares([], data="none"),
        lambda: bootstrapped(lambda _: 0, 0, data="none"),
    ):
        with pytest.raises(NotAsked):
            ask()


def test_equal_items_have_an_interval_only_within_bounds() -> None:
    assert math.isnan(paired([1.0] * 30, 0.0, data="made").low)
    bounded = paired([1.0] * 30, 0.0, bounds=(-1, 1), data="made")
    assert 0.8 < bounded.low < bounded.high <= 1
