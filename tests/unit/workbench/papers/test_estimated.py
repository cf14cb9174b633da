"""Intervals of measurements hold their number as often as they say, and calibration is that of simulations."""

import math

import numpy as np
import numpy.typing as npt
import pytest
from bertscope_workbench.papers.estimates import NotAsked, bootstrapped, paired, shares
from bertscope_workbench.papers.measures.calibration import (
    Predictions,
    _error,
    _gain,
    calibration_error,
    fitted_temperature,
    losses,
)

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


SIMULATIONS = 200


def simulated(
    generator: np.random.Generator, size: int, gap: float = 0.0
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Returns confidences, and whether predictions are right with the confidence less `gap` as their probability."""
    confidence = generator.uniform(0.3, 0.9, size)
    return confidence, (generator.uniform(size=size) < confidence - gap).astype(np.float64)


def test_a_calibrated_model_has_no_error_but_by_chance() -> None:
    generator = np.random.default_rng(0)
    found = [calibration_error(*simulated(generator, 500)) ** 2 for _ in range(SIMULATIONS)]
    plain = []
    for _ in range(SIMULATIONS):
        confidence, right = simulated(generator, 500)
        parts = np.array_split(np.argsort(confidence), 10)
        plain.append(np.mean([(confidence[part] - right[part]).mean() ** 2 for part in parts]))
    assert np.mean(plain) > 0.004  # what chance makes of nothing
    assert np.mean(found) < 0.4 * np.mean(plain)  # most of it is taken off; the rest is that no root is below 0
    assert np.median(found) < 0.001


def test_a_known_error_is_found_without_bias() -> None:
    generator = np.random.default_rng(1)
    found = [calibration_error(*simulated(generator, 500, gap=0.2)) ** 2 for _ in range(SIMULATIONS)]
    assert np.mean(found) == pytest.approx(0.04, abs=0.003)


@pytest.mark.slow
def test_the_interval_of_an_error_holds_it_and_counts_sentences() -> None:
    confidence, right = simulated(np.random.default_rng(3), 600, gap=0.2)
    found = _error(Predictions(confidence, right, np.repeat(np.arange(60), 10), ["w"] * 600, "made"))
    assert found.items == 60
    assert 0.1 < found.low <= 0.2 <= found.high < 0.3


@pytest.mark.slow
def test_the_temperature_that_was_put_in_comes_out() -> None:
    generator = np.random.default_rng(4)
    odds = generator.normal(0, 2, 20_000)
    right = (generator.uniform(size=len(odds)) < 1 / (1 + np.exp(-odds))).astype(np.float64)
    too_sure = 1 / (1 + np.exp(-2 * odds))
    assert fitted_temperature(too_sure, right) == pytest.approx(2.0, rel=0.06)
    sentences = np.repeat(np.arange(200), 100)
    found = _gain(Predictions(too_sure, right, sentences, ["w"] * len(odds), "made"))
    assert found.low > 0.02
    assert found.items == 100  # the other half
    calibrated = _gain(Predictions(1 / (1 + np.exp(-odds)), right, sentences, ["w"] * len(odds), "made"))
    assert calibrated.high < 0.005


def test_losses_are_those_of_the_outcome() -> None:
    found = losses(np.array([0.8, 0.8, 1.0]), np.array([1.0, 0.0, 1.0]))
    assert found[:2] == pytest.approx([-np.log(0.8), -np.log(0.2)])
    assert np.isfinite(found).all()
