"""What the comparison with Ray Serve makes of its readings."""

import pytest

from benchmarks.peers.load import Reading
from benchmarks.ray_serve.command import Cell, Row

READINGS = {
    "ours": [Reading(100, 10, 20), Reading(120, 8, 16), Reading(80, 12, 24)],
    "one": [Reading(50, 20, 40), Reading(40, 22, 44), Reading(40, 24, 48)],
    "two": [Reading(90, 11, 22), Reading(80, 12, 24), Reading(70, 14, 28)],
}


@pytest.mark.slow
def test_ratios_are_taken_round_by_round() -> None:
    row = Row(Cell(8, 1), READINGS)
    assert row.ratio("one", "ours") == pytest.approx((0.5, 1 / 3, 0.5))
    assert row.ratio("two", "one") == pytest.approx((1.8, 1.75, 2.0))
    assert row.middle("two", lambda reading: reading.p95) == 24
