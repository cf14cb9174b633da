"""What the soak counts, what it expects of a model that comes and goes, and what it says of memory."""

import asyncio

import bertscope
import grpc
import numpy as np
import pytest

from benchmarks.lib.fillings import Filling
from benchmarks.soak.guest import Guest
from benchmarks.soak.making import close
from benchmarks.soak.questions import Answer
from benchmarks.soak.samples import Sample, memory_trend, trend
from benchmarks.soak.tally import ALWAYS, Tally, counted


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


def test_a_call_is_counted_whether_it_gives_something_or_fails() -> None:
    tally = Tally()

    async def give() -> int:
        return 7

    async def fail() -> int:
        raise bertscope.NotFound("no such model", code=grpc.StatusCode.NOT_FOUND)

    assert asyncio.run(counted(tally, "give", give(), {"OK"})) == 7
    assert asyncio.run(counted(tally, "fail", fail(), {"NOT_FOUND"})) is None
    assert tally.clean
    assert asyncio.run(counted(tally, "fail", fail(), {"OK"})) is None
    assert tally.unexpected == 1


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


def test_an_answer_agrees_with_the_truth_or_with_its_beginning() -> None:
    one, two = np.array([[0.25, 0.75]]), np.array([[0.5, 0.5]])
    truth = Answer("digest", arrays=[one, two])
    assert Answer("digest", arrays=[one + 1e-5, two]).agrees(truth)
    assert Answer("digest", arrays=[one]).agrees(truth)
    assert not Answer("digest", arrays=[two]).agrees(truth)
    assert not Answer("digest", arrays=[one[0]]).agrees(truth)
    assert not Answer("digest", arrays=[]).agrees(truth)
    assert not Answer("digest", arrays=[one, two, two]).agrees(truth)


def test_a_model_answers_as_when_it_was_made_alone_up_to_its_tolerance() -> None:
    truth: list[Filling] = [{(1,): -2.0, (2,): -3.0}, {(1,): -1.0, (2,): -9.0}]
    assert close([{(2,): -3.1, (1,): -2.0}, {(1,): -1.0, (2,): -9.0}], truth, 0.2)
    assert not close([{(2,): -3.3, (1,): -2.0}, {(1,): -1.0, (2,): -9.0}], truth, 0.2)
    assert not close([{(1,): -2.0, (3,): -3.0}, {(1,): -1.0, (2,): -9.0}], truth, 0.2)
    assert not close(truth[:1], truth, 0.2)
