"""Calibration against simulations whose calibration is known."""

import numpy as np
import numpy.typing as npt
import pytest
from bertscope_workbench.papers.measures.calibration import (
    Predictions,
    _error,
    _gain,
    calibration_error,
    fitted_temperature,
    losses,
)

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
