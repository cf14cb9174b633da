"""No exception ends a device's thread silently: what is a batch's own stays there, and after any other everybody is told."""

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError as FutureCancelledError
from typing import Any

import pytest
import torch
from bertscope_service.encoders.observer import Readout
from bertscope_service.encoders.state import State
from bertscope_service.engine import jobs_in_flight, runs
from bertscope_service.engine.lease import Call
from bertscope_service.engine.queue import RowQueue
from bertscope_service.engine.rate_estimate import RateEstimate
from bertscope_service.engine.rows import Job
from bertscope_service.engine.runs import Runner
from bertscope_service.engine.worker import Worker
from bertscope_service.errors import Overloaded, Unavailable

from tests.support.fakes import SECONDS, Blocker, SumObserver
from tests.support.rig import CPU, Rig, begun, ends

pytestmark = pytest.mark.asyncio


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_in_flight, "PAUSE_SECONDS", 0.0)


def is_broken(rig: Rig) -> bool:
    return rig.value("bertscope_device_broken", device="cpu") == 1


def dealing(change: Callable[[list[Any]], Any]) -> type[SumObserver]:
    """Observers of batches whose results are changed if a row of 13 tokens is among them."""

    class Dealing(SumObserver):
        @classmethod
        def run(cls, encoder: Any, state: State, gates: Any, observers: Sequence[Any]) -> Readout:
            sums = (state.hidden.sum(dim=(1, 2)),)
            bad = 13 in state.lengths
            return Readout(sums, lambda arrays: change(arrays[0].tolist()) if bad else arrays[0].tolist())

    return Dealing


@pytest.mark.parametrize(
    "change",
    [lambda results: results[:-1], lambda results: [*results, 0.0], lambda results: None],
    ids=["too few", "too many", "nothing"],
)
async def test_an_observer_that_deals_out_too_few_or_too_many_results_fails_its_own_call(
    rig: Rig, change: Callable[[list[Any]], Any]
) -> None:
    blocker, blocked = await rig.block()
    observer = dealing(change)()
    good, bad = rig.run([12, 14], observer, client="good"), rig.run([13, 12], observer, client="bad")
    await asyncio.sleep(0)
    blocker.release.set()
    found = await ends(blocked, good, bad)
    assert found[:2] == [[1.0], [12.0, 14.0]]
    assert isinstance(found[2], RuntimeError if change([1]) is not None else TypeError)
    assert await rig.run([3]) == [3.0]
    assert not is_broken(rig)


@pytest.mark.parametrize(
    ("error", "when"),
    [
        (SystemExit(3), "run"),
        (asyncio.CancelledError(), "deal"),
        (StopIteration(), "run"),
        (StopIteration(), "deal"),
        (FutureCancelledError(), "deal"),
        (MemoryError(), "deal"),
    ],
    ids=str,
)
async def test_whatever_a_batch_raises_is_its_own(rig: Rig, error: BaseException, when: str) -> None:
    """Even what a future can't carry, or what would end the event loop or pass for a cancellation there."""

    class Raising(SumObserver):
        @classmethod
        def run(cls, encoder: Any, state: State, gates: Any, observers: Sequence[Any]) -> Readout:
            def deal(_: Any) -> list[Any]:
                raise error

            if when == "run":
                raise error
            return Readout((), deal)

    (found,) = await ends(rig.run([3], Raising()))
    assert isinstance(found, Exception)
    assert error in (found, found.__cause__) or isinstance(error, MemoryError)
    assert await rig.run([3]) == [3.0]
    assert not is_broken(rig)


@pytest.mark.parametrize("error", [SystemExit(3), StopIteration()])
async def test_whatever_a_call_of_a_lease_raises_is_its_own(rig: Rig, error: BaseException) -> None:
    def fail() -> None:
        raise error

    async with rig.engine.lease(CPU, refuse=False) as lease:
        with pytest.raises(RuntimeError) as caught:
            await asyncio.wait_for(lease.call(fail), SECONDS)
        assert caught.value.__cause__ is error
        assert await lease.call(lambda: "next") == "next"
    assert await rig.run([3]) == [3.0]


PLACES: dict[str, tuple[Any, str]] = {
    "taking a batch": (RowQueue, "take"),
    "having taken one": (RowQueue, "take"),
    "waiting for one": (Worker, "next_work"),
    "noting who waited": (Runner, "_note_waits"),
    "measuring": (Runner, "_measure"),
    "delivering": (runs, "deliver"),
    "learning the rate": (RateEstimate, "note"),
}


@pytest.mark.parametrize(
    ("place", "error"), [*((place, MemoryError()) for place in PLACES), ("measuring", SystemExit(3))], ids=str
)
async def test_an_error_that_is_no_batchs_own_breaks_the_device_and_everybody_is_told(
    rig: Rig, place: str, error: BaseException, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    blocker, blocked = await rig.block()
    waiting = rig.run([5, 6], client="waiting")
    await asyncio.sleep(0)

    take = RowQueue.take

    def fail(*arguments: Any, **_: Any) -> Any:
        if place == "having taken one":  # its rows are taken, and its jobs in no queue any more
            assert take(*arguments).rows
        raise error

    monkeypatch.setattr(*PLACES[place], fail)
    blocker.release.set()
    for found in await ends(blocked, waiting):
        assert found == [1.0] or (isinstance(found, Unavailable) and found.reason == "DEVICE_BROKEN")
    (later,) = await ends(rig.run([3]))
    assert isinstance(later, Unavailable) and later.reason == "DEVICE_BROKEN"
    with pytest.raises(Unavailable):
        async with rig.engine.lease(CPU, refuse=False):
            raise AssertionError("a broken engine lends nothing")
    await rig.engine.close()
    assert (rig.broken, is_broken(rig)) == ([(CPU, 0)], True)
    (record,) = [record for record in caplog.records if record.levelno == logging.CRITICAL]
    assert record.exc_info is not None and record.exc_info[1] is error


async def test_calls_of_a_lease_hear_that_the_device_broke(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one at work, whose end was lost, and those behind it."""
    entered, release = threading.Event(), threading.Event()

    def fail(*_: Any) -> Any:
        entered.set()
        assert release.wait(SECONDS)
        raise MemoryError

    async with rig.engine.lease(CPU, refuse=False) as lease:
        monkeypatch.setattr(Call, "run", fail)
        calls = [asyncio.create_task(lease.call(lambda: 1)) for _ in range(3)]
        assert await asyncio.to_thread(entered.wait, SECONDS)
        release.set()
        found = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), SECONDS)
        assert [getattr(one, "reason", one) for one in found] == ["DEVICE_BROKEN"] * 3
    await rig.engine.close()  # The metric is set after the calls have failed.
    assert is_broken(rig)


async def test_the_device_is_broken_even_if_its_own_last_words_fail_at_first(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """When there is no memory, there is none for the telling either, until what has failed gives some back."""
    blocker, blocked = await rig.block()
    waiting = rig.run([5])
    await asyncio.sleep(0)
    fail_job, tried = jobs_in_flight.fail_job, list[Job]()

    def fail(*_: Any, **__: Any) -> Any:
        raise MemoryError

    def short_of_memory(job: Job, error: BaseException) -> None:
        tried.append(job)
        if len(tried) % 3:
            raise MemoryError
        fail_job(job, error)

    monkeypatch.setattr(RowQueue, "take", fail)
    monkeypatch.setattr(jobs_in_flight, "fail_job", short_of_memory)
    monkeypatch.setattr(jobs_in_flight.logger, "critical", fail)
    blocker.release.set()
    found = await ends(blocked, waiting)
    assert found[0] == [1.0]
    assert found[1].reason == "DEVICE_BROKEN"
    await rig.engine.close()
    assert (rig.broken, is_broken(rig)) == ([(CPU, 0)], True)


async def test_a_job_that_can_not_take_its_results_fails_alone(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the event loop; those behind it in the same delivery have theirs."""
    blocker, blocked = await rig.block()
    bad, good = rig.run([5], client="bad"), rig.run([6], client="good")
    await asyncio.sleep(0)
    settle = Job.settle

    def fail(job: Job, results: Sequence[tuple[int, Any]]) -> None:
        if job.client == "bad":
            raise MemoryError
        settle(job, results)

    monkeypatch.setattr(Job, "settle", fail)
    blocker.release.set()
    found = await ends(blocked, bad, good)
    assert [found[0], found[2]] == [[1.0], [6.0]]
    assert isinstance(found[1], MemoryError)


async def test_a_device_that_fails_for_good_says_so_and_lets_nobody_wait(rig: Rig) -> None:
    """As a CPU whose kernels can't be made any more: oneDNN never recovers from having had no memory for one."""
    blocker = Blocker()

    def die(state: State) -> None:
        blocker(state)
        raise RuntimeError("could not create a primitive")

    dying = rig.run([3], SumObserver(die, group="dying"))
    await asyncio.sleep(0)
    assert await asyncio.to_thread(blocker.entered.wait, SECONDS)
    waiting = rig.run([3])
    await begun(waiting)
    assert not is_broken(rig)
    blocker.release.set()
    found = [*await ends(dying, waiting), *await ends(rig.run([3]))]
    assert [(type(one), one.reason) for one in found] == [(Unavailable, "DEVICE_BROKEN")] * 3
    await rig.engine.close()  # the thread has ended
    assert (rig.broken, is_broken(rig)) == ([(CPU, 0)], True)


@pytest.mark.parametrize(
    "error", [MemoryError(), torch.OutOfMemoryError("no room"), RuntimeError("DefaultCPUAllocator: can't allocate memory")]
)
async def test_a_batch_without_memory_is_refused_and_breaks_nothing(rig: Rig, error: Exception) -> None:
    def fail(state: State) -> None:
        raise error

    (found,) = await ends(rig.run([3], SumObserver(fail)))
    assert isinstance(found, Overloaded) and found.reason == "DEVICE_MEMORY"
    assert await rig.run([3]) == [3.0]
    assert not is_broken(rig)
