"""What the soak counts, expects of a model that comes and goes, and says of memory; and two minutes of it, in which models are
made in parallel on a server of its own, on both runtimes, beside checked calls."""

import re

import numpy as np
import pytest
from bertscope_service.observability.loop_monitor import HELD_SECONDS

from benchmarks.soak.command import run
from benchmarks.soak.guest import Guest
from benchmarks.soak.run import Plan
from benchmarks.soak.samples import Sample, memory_trend, trend
from benchmarks.soak.tally import ALWAYS, Tally


def test_a_trend_is_the_least_squares_line_with_its_standard_error() -> None:
    draw = np.random.default_rng(2)
    seconds = np.arange(0, 1200, 5.0)
    values = 900 + 12 * seconds / 3600 + draw.normal(0, 0.5, len(seconds))
    found = trend(list(seconds), list(values))
    (slope, _), covariance = np.polyfit(seconds / 3600, values, 1, cov=True)
    assert found.slope == pytest.approx(slope)
    assert found.error == pytest.approx(np.sqrt(covariance[0, 0]))
    assert abs(found.slope - 12) < 4 * found.error
    assert np.isnan(trend([0, 1], [1, 2]).slope)


def test_memory_that_grew_at_the_beginning_and_no_more_is_flat() -> None:
    sizes = [100, 150, 200, 200, 200, 200, 200, 200, 200]
    samples = [Sample(60.0 * number, size * 1_000_000, 10, 10) for number, size in enumerate(sizes)]
    assert memory_trend(samples).slope == pytest.approx(0)
    growing = [Sample(60.0 * number, (100 + number) * 1_000_000, 10, 10) for number in range(9)]
    assert memory_trend(growing).slope == pytest.approx(60)


def test_calls_that_end_as_nothing_explains_are_faults() -> None:
    tally = Tally()
    tally.ended("FillMask", "OK", ALWAYS)
    tally.ended("FillMask", "RESOURCE_EXHAUSTED", ALWAYS)
    assert tally.clean
    tally.ended("FillMask", "INTERNAL", ALWAYS, "an id")
    assert not tally.clean and tally.unexpected == 1
    assert tally.faults == ["FillMask: INTERNAL an id"]
    assert tally.counts["FillMask", "INTERNAL"] == 1
    tally.was_wrong("FillMask", "not the true answer")
    assert tally.wrong == 1


def test_a_call_after_a_replacement_is_answered_by_the_new_weights_alone() -> None:
    guest = Guest()
    guest.begin("old")
    guest.settle()
    before = guest.now()
    guest.begin("new")
    during = guest.now()
    assert guest.since(before) == guest.since(during) == {"old", "new"}
    guest.settle()
    after = guest.now()
    assert guest.since(during) == {"old", "new"}
    assert guest.since(after) == {"new"}
    assert guest.stayed(before) and guest.stayed(after)  # a replacement leaves no gap


def test_a_model_that_left_and_came_back_did_not_stay() -> None:
    guest = Guest()
    absent = guest.now()
    guest.begin("a")
    guest.settle()
    present = guest.now()
    assert guest.stayed(present) and not guest.stayed(absent)
    guest.leave()
    assert not guest.stayed(present)
    guest.begin("a")
    guest.settle()
    assert not guest.stayed(present)


SECONDS = 120.0


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_models_are_made_in_parallel_beside_checked_calls(capfd: pytest.CaptureFixture[str]) -> None:
    # What is right on a fast machine is right on a slow one, where a sweep among seven others may wait for over a minute.
    outcome = run(Plan(SECONDS, callers=4, operators=3, patience=900), [])
    assert outcome.tally.faults == []
    said = capfd.readouterr().err
    held = [float(seconds) for seconds in re.findall(r"the event loop goes on: it was held for ([\d.]+) s", said)]
    assert max(held, default=0.0) < 4 * HELD_SECONDS, said  # a slow and busy machine may take as many times longer
    assert outcome.tally.clean
    counts = outcome.tally.counts
    made = {kind.partition(",")[0] for (kind, code), count in counts.items() if code == "OK" and count}
    assert made >= {"LoadModel", "CompressModel", "FillMask", "RankHeads", "ExtractAttention", "SweepHeads", "ModelInfer"}
    assert made >= {"DescribeAttention", "ScoreRelations", "ScoreFeatures", "ScoreTexts", "CompareTexts"}
