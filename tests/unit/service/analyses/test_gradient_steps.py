"""Steps of integrated gradients, of made-up gradients: they are tripled while that helps."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from bertscope_service.analyses.observers.targets import EntryTarget
from bertscope_service.analyses.path_attribution import GradientWork, Steps
from bertscope_service.analyses.text_units import TextUnits
from bertscope_service.encoders.sequences import TokenSequence

IDS = np.array([1, 5, 6, 2])


def run(errors: list[float], tolerance: float = 0.01, most: int = 1000) -> GradientWork:
    """Runs a work whose difference is 1, and whose sum is wrong by each of `errors` in turn."""
    tokenized: Any = SimpleNamespace(sequence=TokenSequence(IDS, np.zeros(4, dtype=np.int64)))
    units = TextUnits(tokenized, [None, None], np.array([-1, 0, 1, -1]), IDS, np.zeros(4, dtype=np.int64))  # type: ignore[list-item]
    work = GradientWork(units, EntryTarget(1, (7,)), 9, Steps(10, most, tolerance))
    sums, left = 0.0, iter(errors)
    while work.rows:
        ends = [0.0, 1.0] if not work.evaluations else []
        wanted = (1 + next(left)) * work._steps.steps  # the sum over all steps so far
        count = len(work.rows) - len(ends)
        parts = np.array([0, 0.5, 0.5, 0]) * (wanted - sums) / count
        work.advance([*ends, *[(0.5, parts)] * count])
        sums = wanted
    assert next(left, None) is None
    return work


@pytest.mark.parametrize(
    ("errors", "steps"),
    [
        ([0.001], 10),
        ([0.5, 0.04, 0.005], 90),
        ([0.5, 0.6, 0.2, 0.1, 0.03], 810),
        ([0.5, 0.49, 0.48, 0.47], 270),
        ([0.5, 0.5, 0.5, 0.2, 0.1], 810),
    ],
)
def test_steps_are_tripled_until_the_error_is_small_or_no_longer_falls(errors: list[float], steps: int) -> None:
    work = run(errors)
    assert work.shares.steps == steps
    assert work.shares.completeness_error == pytest.approx(errors[-1], rel=1e-6)
    assert work.evaluations == steps + 2


def test_steps_end_at_the_most() -> None:
    assert run([0.5, 0.4], most=80).shares.steps == 30
