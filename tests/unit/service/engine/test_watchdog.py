"""A device that hangs turns everybody away and says so; when it goes on after all, it serves again."""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
import pytest_asyncio
import torch
from bertscope_service.encoders.state import State
from bertscope_service.engine.lease import Call
from bertscope_service.engine.rate_estimate import STALL_FACTOR, UNKNOWN_TOKEN_SECONDS, RateEstimate
from bertscope_service.engine.rows import Job, Priority, Row
from bertscope_service.engine.watchdog import MAX_STEP_SECONDS, Watchdog, hanging
from bertscope_service.errors import Unavailable

from tests.support.fakes import SECONDS, Blocker, FakeEncoder, SumObserver, job_of, sequence
from tests.support.rig import CPU, Rig

pytestmark = pytest.mark.asyncio
NO_STATE = State(torch.zeros(0), (), None)


def looks(watchdog: Watchdog, times: Iterator[float], number: int) -> list[bool]:
    """Whether something hangs, at each of some looks a second."""
    return [watchdog.check(next(times)) is not None for _ in range(number)]


async def test_work_that_runs_longer_than_the_limit_hangs() -> None:
    watchdog, clock = Watchdog(RateEstimate(), 3.0), count(1000.0)
    rows = job_of(FakeEncoder(), [5]).rows
    assert looks(watchdog, clock, 5) == [False] * 5
    with watchdog.batch(rows):
        assert looks(watchdog, clock, 6) == [False] * 4 + [True] * 2
    assert not watchdog.check(next(clock))
    for _ in range(3):  # time does not add up over batches
        with watchdog.batch(rows):
            assert looks(watchdog, clock, 3) == [False] * 3


async def test_a_process_that_stood_still_has_no_batch_that_hangs() -> None:
    watchdog = Watchdog(RateEstimate(), 3 * MAX_STEP_SECONDS)
    with watchdog.batch(job_of(FakeEncoder(), [5]).rows):
        assert not any(watchdog.check(now) for now in (0.0, 3600.0, 7200.0))


async def test_without_a_limit_nothing_hangs() -> None:
    watchdog = Watchdog(RateEstimate(), 0.0)
    with watchdog.batch(job_of(FakeEncoder(), [5]).rows):
        assert not any(watchdog.check(now) for now in range(10_000))


async def test_a_batch_may_take_what_its_size_explains() -> None:
    """By the rate of such rows, else by the slowest of its encoder, else by a guess; padding runs, too."""
    rates, encoder, other = RateEstimate(), FakeEncoder(), FakeEncoder()
    row, unknown = (Row(encoder, sequence(10), SumObserver(group=group)) for group in ("known", "unknown"))  # type: ignore[arg-type]
    Job([row, unknown], client="client", priority=Priority.INTERACTIVE, deadline=None)
    rates.note(encoder, Priority.INTERACTIVE, row.kind, 10.0)  # type: ignore[arg-type]
    rates.note(encoder, Priority.BULK, row.kind, 1000.0)  # type: ignore[arg-type]
    key = (Priority.BULK, row.kind)
    assert rates.longest(encoder, 500, key) == pytest.approx(STALL_FACTOR * 0.5)  # type: ignore[arg-type]
    assert rates.longest(encoder, 500, (Priority.BULK, unknown.kind)) == pytest.approx(STALL_FACTOR * 50)  # type: ignore[arg-type]
    assert rates.longest(encoder, 500) == pytest.approx(STALL_FACTOR * 50)  # type: ignore[arg-type]
    assert rates.longest(other, 500) == pytest.approx(STALL_FACTOR * 500 * UNKNOWN_TOKEN_SECONDS)  # type: ignore[arg-type]
    watchdog = Watchdog(rates, 1.0)
    with watchdog.batch(job_of(encoder, [1, 5]).rows):
        watchdog.check(0.0)
        for seconds in range(1, math.ceil(STALL_FACTOR * 10 / 10.0)):
            assert not watchdog.check(float(seconds))
        assert [bool(watchdog.check(STALL_FACTOR * 10 / 10.0 + later)) for later in (0.0, 1.0)] == [False, True]
    with watchdog.call(Call(lambda: None, encoder, 20)):  # type: ignore[arg-type]
        assert sum(not watchdog.check(1e4 + seconds) for seconds in range(100)) == STALL_FACTOR * 20 / 10.0 + 1
    with watchdog.call(Call(lambda: None)):
        assert sum(not watchdog.check(2e4 + seconds) for seconds in range(100)) == 2


CLOCK = count(0.0, MAX_STEP_SECONDS)


def look(rig: Rig) -> bool:
    """Looks whether the device hangs, as often as it takes for something at work to be too long; whether it does."""
    for _ in range(100):
        rig.engine._workers[CPU].check_stall(next(CLOCK))
    return is_stalled(rig)


def is_stalled(rig: Rig) -> bool:
    return rig.value("bertscope_device_stalled", device="cpu") == 1


@pytest_asyncio.fixture
async def rig(rig: Rig) -> Rig:
    """One that is told by `look` alone how late it is."""
    assert await rig.run([1]) == [1.0]
    assert rig.engine._next_check is not None
    rig.engine._next_check.cancel()
    return rig


async def until(condition: Callable[[], object]) -> None:
    """Come back as soon as the condition holds."""
    limit = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < limit
        await asyncio.sleep(0.001)


async def test_while_a_batch_hangs_everybody_is_told_and_when_it_has_ended_all_is_well(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    blocker, hung = await rig.block()
    waiting = rig.run([2])
    await asyncio.sleep(0)
    assert look(rig)
    for found in await asyncio.wait_for(asyncio.gather(hung, waiting, return_exceptions=True), SECONDS):
        assert isinstance(found, Unavailable)
        assert found.reason == "DEVICE_STALLED"
    with pytest.raises(Unavailable, match="ask another server"):
        await rig.run([3])
    with pytest.raises(Unavailable):
        async with rig.engine.lease(CPU, refuse=False):
            raise AssertionError("a device that hangs is not lent")
    assert rig.metrics.registry.get_sample_value("bertscope_queue_rows", {"device": "cpu"}) == 0
    blocker.release.set()
    await until(lambda: not look(rig))
    assert await rig.run([4]) == [4.0]
    assert rig.stalled == [True, False]
    said = [record.getMessage() for record in caplog.records if record.name == "bertscope.devices"]
    assert "a batch (1 text, 1 tokens) has run for" in said[0]
    assert said[1].startswith("cpu continues")
    assert [record.levelno for record in caplog.records if record.name == "bertscope.devices"] == [
        logging.CRITICAL,
        logging.WARNING,
    ]


async def test_a_call_of_a_lease_that_hangs_is_told_and_its_late_result_harms_nobody(rig: Rig) -> None:
    blocker = Blocker()
    async with rig.engine.lease(CPU, refuse=False) as lease:
        calls = [asyncio.create_task(lease.call(lambda: blocker(NO_STATE))) for _ in range(2)]
        waiting = rig.run([2])
        assert await asyncio.to_thread(blocker.entered.wait, SECONDS)
        assert look(rig)
        found = await asyncio.wait_for(asyncio.gather(*calls, waiting, return_exceptions=True), SECONDS)
        assert [getattr(one, "reason", one) for one in found] == ["DEVICE_STALLED"] * 3
    blocker.release.set()
    await until(lambda: not look(rig))
    assert await rig.run([4]) == [4.0]


async def test_a_device_that_hangs_does_not_keep_the_engine_from_its_end(rig: Rig) -> None:
    blocker, hung = await rig.block()
    assert look(rig)
    with pytest.raises(Unavailable):
        await asyncio.wait_for(hung, SECONDS)
    await rig.engine.close(0.01)
    assert hanging()
    blocker.release.set()
    await until(lambda: not hanging())


async def test_the_engine_looks_by_itself_and_does_not_stop_at_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    rig, blocker, failed = Rig(stall_seconds=0.5), Blocker(), list[float]()
    check = Watchdog.check

    def fail_once(watchdog: Watchdog, now: float) -> Any:
        if not failed:
            failed.append(now)
            raise MemoryError
        return check(watchdog, now)

    monkeypatch.setattr(Watchdog, "check", fail_once)
    with pytest.raises(Unavailable):
        await asyncio.wait_for(rig.run([1], SumObserver(blocker)), SECONDS)
    blocker.release.set()
    await until(lambda: not is_stalled(rig))
    assert rig.stalled == [True, False]
    assert failed
    await rig.engine.close()
