"""The thread that runs batches: order, failures, memory, cancellation, deadlines and its end. No model, no clock."""

import asyncio
import time
import weakref
from typing import Any

import pytest
import torch
from bertscope_service.encoders.observer import Readout
from bertscope_service.encoders.state import State
from bertscope_service.engine.rows import Job, Priority, Row
from bertscope_service.engine.runs import MAX_FAILED_RUNS, Runner
from bertscope_service.errors import DeadlineExceeded, Overloaded
from bertscope_service.observability.metrics import Metrics

from tests.support.fakes import FakeEncoder, SumObserver, sequence
from tests.support.rig import CPU, Rig, begun, ends

pytestmark = pytest.mark.asyncio


async def test_jobs_that_come_together_share_a_batch_of_an_idle_device(rig: Rig) -> None:
    """It is woken once for all of them, after the last; no rows need none."""
    assert await rig.engine.run([], client="client") == []
    await rig.run([5])
    waiters: Any = rig.engine._workers[CPU]._ready
    while not waiters._waiters:  # noqa: ASYNC110 - its thread comes back from its batch, and tells nobody
        await asyncio.sleep(0)
    batches: list[tuple[int, ...]] = []
    observer = SumObserver(lambda state: batches.append(state.lengths))
    calls = [rig.run([5], observer, client=f"client {number}") for number in range(10)]
    assert await asyncio.gather(*calls) == [[5.0]] * 10
    assert batches == [(5,) * 10]


async def test_padding_is_measured(rig: Rig) -> None:
    await rig.run([10, 6])
    assert rig.value("bertscope_batch_tokens_total", device="cpu", kind="real") == 16
    assert rig.value("bertscope_batch_tokens_total", device="cpu", kind="padding") == 4
    assert rig.value("bertscope_batch_rows_sum", device="cpu") == 2


async def test_a_poisoned_job_does_not_fail_its_neighbours_in_the_batch(rig: Rig) -> None:
    """Each job's rows run again alone, once."""
    blocker, _ = await rig.block()
    tried: list[tuple[int, ...]] = []

    def poisoned(state: State) -> None:
        tried.append(state.lengths)
        if 13 in state.lengths:
            raise ValueError("poison")

    observer = SumObserver(poisoned)
    good = [rig.run([12, 12], observer, client="one"), rig.run([14], observer, client="two")]
    bad = rig.run([13, 12], observer, client="bad")
    await begun(*good, bad)
    blocker.release.set()
    with pytest.raises(ValueError, match="poison"):
        await bad
    assert [await job for job in good] == [[12.0, 12.0], [14.0]]
    assert sorted(tried, key=len) == [(14,), (12, 12), (12, 13), (12, 12, 12, 13, 14)]
    assert rig.value("bertscope_batches_failed_total", device="cpu") == 2


async def test_a_model_that_always_fails_does_not_keep_the_device_from_others(rig: Rig) -> None:
    """So many runs of a batch's parts and no more: it is not a matter of single requests then."""
    blocker, _ = await rig.block()
    tried: list[State] = []

    def broken(state: State) -> None:
        tried.append(state)
        raise ValueError("broken")

    observer = SumObserver(broken)
    jobs = [rig.run([2], observer, client=f"client {number}") for number in range(50)]
    await begun(*jobs)
    blocker.release.set()
    failures = await asyncio.gather(*jobs, return_exceptions=True)
    assert all(isinstance(failure, ValueError) for failure in failures)
    assert len(tried) == MAX_FAILED_RUNS + 1
    assert await rig.run([3]) == [3.0]


async def test_rows_that_used_up_their_states_do_not_run_again() -> None:
    """An error that surfaces when a batch lands comes after its kept states are gone."""
    runner, encoder = Runner(CPU, Metrics(), lambda rows, seconds: None), FakeEncoder()
    ran: list[State] = []

    class Failing(SumObserver):
        @classmethod
        def run(cls, encoder: object, state: State, gates: object, observers: object) -> Readout:
            ran.append(state)
            return Readout((), lambda _: [][0])

    jobs = []
    for token in (1, 2):
        row = Row(encoder, sequence(4, token), Failing())
        row.state = encoder.begin([row.sequence])
        jobs.append(Job([row], client=f"client {token}", priority=Priority.INTERACTIVE, deadline=None))
    batch = runner.launch([row for job in jobs for row in job.rows])
    assert batch is not None
    runner.finish(batch)
    failures = await asyncio.gather(*(job.done for job in jobs), return_exceptions=True)
    assert all(isinstance(failure, IndexError) for failure in failures)
    assert len(ran) == 1


async def test_a_job_fails_with_its_first_batch(rig: Rig) -> None:
    """Whatever becomes of the others, and nothing of it stays in the queue."""
    batches: list[tuple[int, ...]] = []

    def fail_once(state: State) -> None:
        batches.append(state.lengths)
        if len(batches) == 1:
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await rig.run([90, 10, 50], SumObserver(fail_once))
    assert batches[0] == (90,)
    assert await rig.run([3]) == [3.0]
    assert rig.waiting == 0


@pytest.mark.parametrize("fits", [1, 3])
async def test_a_batch_that_does_not_fit_is_halved(rig: Rig, fits: int) -> None:
    tried: list[int] = []

    def seen(state: State) -> None:
        tried.append(len(state.lengths))
        if len(state.lengths) > fits:
            raise torch.OutOfMemoryError("no room")

    assert await rig.run([10] * 8, SumObserver(seen), token=3) == [30.0] * 8
    assert tried[0] == 8
    assert [size for size in tried if size <= fits] == ([2] * 4 if fits > 1 else [1] * 8)
    assert await rig.run([3]) == [3.0]


async def test_a_row_that_does_not_fit_is_refused(rig: Rig) -> None:
    """And only that row's job: its neighbours in the batch are answered."""
    blocker, _ = await rig.block()

    def no_long_rows(state: State) -> None:
        if max(state.lengths) > 10:
            raise torch.OutOfMemoryError("no room")

    observer = SumObserver(no_long_rows)
    long, short = rig.run([14], observer, client="long"), rig.run([9, 10, 9], observer, client="short")
    await begun(long, short)
    blocker.release.set()
    with pytest.raises(Overloaded) as caught:
        await long
    assert caught.value.reason == "DEVICE_MEMORY"
    assert caught.value.retry_after > 0
    assert "14 tokens" in caught.value.message
    assert await short == [9.0, 10.0, 9.0]
    assert await rig.run([3]) == [3.0]


async def test_rows_of_a_caller_that_left_or_is_out_of_time_never_run(rig: Rig) -> None:
    blocker, blocked = await rig.block()
    ran = SumObserver((states := list[State]()).append)
    gone, kept = rig.run([5, 6], ran, client="gone"), rig.run([7], client="kept", deadline=time.monotonic() + 3600)
    late = rig.run([8], ran, deadline=time.monotonic() - 1)
    await begun(gone, kept, late)
    assert rig.waiting == 4
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert (rig.waiting, rig.value("bertscope_queue_tokens", device="cpu")) == (1, 7)
    blocker.release.set()
    with pytest.raises(DeadlineExceeded) as caught:
        await late
    assert caught.value.reason == "DEADLINE_IN_QUEUE"
    assert (await kept, await blocked, states) == ([7.0], [1.0], [])
    assert rig.value("bertscope_rows_dropped_total", reason="cancelled") == 2
    assert rig.value("bertscope_rows_dropped_total", reason="deadline") == 1


async def test_a_job_that_others_keep_from_beginning_is_turned_away_after_all() -> None:
    """After twice the longest wait; one that has begun goes on, and bulk rows wait for their turn."""
    rig = Rig(queue_seconds=0.01)
    blocker, blocked = await rig.block()
    waiting = rig.run([5, 6])
    continued, bulk = rig.run([7], admitted=True), rig.run([8], priority=Priority.BULK)
    await begun(waiting, continued, bulk)
    (refused,) = await ends(waiting)
    assert isinstance(refused, Overloaded) and refused.reason == "QUEUE_FULL"
    assert refused.message.startswith("this request has waited for 0.02 s on cpu")
    assert rig.value("bertscope_rejected_total", reason="queue_full") == 1
    assert rig.value("bertscope_rows_dropped_total", reason="overload") == 2
    assert rig.waiting == 2
    blocker.release.set()
    assert await ends(blocked, continued, bulk) == [[1.0], [7.0], [8.0]]
    await rig.engine.close()


async def test_kept_states_are_used_once(rig: Rig) -> None:
    """A row that continues holds its state no longer than it takes to run it."""
    layers: list[int] = []
    row = rig.row(4, SumObserver(lambda state: layers.append(state.layer)), token=9)
    row.state = rig.encoder.begin([sequence(4)])
    row.state.layer = 1
    assert await rig.engine.run([row], client="client") == [4.0]
    assert layers == [1]
    assert row.state is None


async def test_a_failed_batch_leaves_no_memory_behind_before_it_is_halved(rig: Rig) -> None:
    """What the whole batch had allocated must be gone when its halves run, or they don't fit either."""
    hidden: list[weakref.ref[torch.Tensor]] = []
    alive: list[bool] = []

    def seen(state: State) -> None:
        if len(state.lengths) == 4:
            hidden.append(weakref.ref(state.hidden))
            raise torch.OutOfMemoryError("no room")
        alive.append(hidden[0]() is not None)

    assert await rig.run([10] * 4, SumObserver(seen)) == [10.0] * 4
    assert alive == [False, False]
