"""A device that is lent: what runs, what waits, who is refused, and that it always comes back."""

import asyncio
import threading

import pytest
import torch
from bertscope_service.encoders.state import State
from bertscope_service.engine.lease import Lease
from bertscope_service.errors import Overloaded, Unavailable

from tests.support.fakes import SECONDS, Blocker, SumObserver
from tests.support.rig import CPU, Rig, begun

pytestmark = pytest.mark.asyncio
NO_STATE = State(torch.zeros(0), (), None)


async def test_calls_run_on_the_worker_in_inference_mode_and_others_wait(rig: Rig) -> None:
    assert await rig.run([1]) == [1.0]
    async with rig.engine.lease(CPU, refuse=False) as lease:
        one, other = rig.run([3]), rig.run([4])
        await begun(one, other)
        assert await lease.call(lambda: threading.current_thread().name) == "bertscope-cpu"
        assert await lease.call(torch.is_inference_mode_enabled)
        assert not one.done() and not other.done()
        assert rig.waiting == 2
    assert (await one, await other) == ([3.0], [4.0])
    assert (lease.waited, lease.refused) == (2, 0)


async def test_the_batch_at_work_finishes_first_and_those_behind_it_are_counted(rig: Rig) -> None:
    ran = list[str]()
    blocker, running = await rig.block()
    behind = rig.run([2], SumObserver(lambda _: ran.append("row")))
    await begun(behind)
    async with rig.engine.lease(CPU, refuse=True) as lease:
        call = asyncio.create_task(lease.call(lambda: ran.append("call")))
        await asyncio.sleep(0)
        assert not call.done()
        blocker.release.set()
        await call
        assert await running == [1.0]
        assert not behind.done()
    assert await behind == [2.0]
    assert ran == ["call", "row"]
    assert (lease.waited, lease.refused) == (1, 0)


async def test_those_who_are_refused_are_told_when_to_come_back(rig: Rig) -> None:
    async with rig.engine.lease(CPU, refuse=True) as lease:
        lease.expect(12.5)
        with pytest.raises(Overloaded) as caught:
            await rig.run([3])
        continued = rig.run([4], admitted=True)
        await begun(continued)
        lease.expect(1e9)
        assert lease.retry_after == 600.0
    assert caught.value.reason == "DEVICE_BUSY"
    assert 11 < caught.value.retry_after <= 12.5
    assert await continued == [4.0]
    assert (lease.waited, lease.refused) == (1, 1)
    assert rig.value("bertscope_rejected_total", reason="device_busy") == 1
    assert await rig.run([3]) == [3.0]


async def test_the_queue_stays_bounded(rig: Rig) -> None:
    async with rig.engine.lease(CPU, refuse=False) as lease:
        first = rig.run([150])
        await begun(first)
        lease.expect(300)
        with pytest.raises(Overloaded) as caught:
            await rig.run([60])
        assert caught.value.reason == "QUEUE_FULL"
        assert caught.value.retry_after > 290, "there is no room before the device is back"
    assert await first == [150.0]
    assert (lease.waited, lease.refused) == (1, 0)


async def test_a_second_lease_waits_for_the_first(rig: Rig) -> None:
    order: list[str] = []

    async def borrow(name: str) -> None:
        async with rig.engine.lease(CPU, refuse=False) as lease:
            await lease.call(lambda: order.append(name))
            order.append(f"{name} again")

    async with rig.engine.lease(CPU, refuse=False) as lease:
        others = [asyncio.create_task(borrow(name)) for name in "bcd"]
        await asyncio.sleep(0)
        others[1].cancel()
        await lease.call(lambda: order.append("a"))
    await asyncio.wait(others)
    assert order == ["a", "b", "b again", "d", "d again"]
    assert others[1].cancelled()


@pytest.mark.parametrize("cancelled", [True, False])
async def test_a_borrower_that_fails_gives_the_device_back(rig: Rig, cancelled: bool) -> None:
    """While its call runs, and while another one has not begun: that never does."""
    blocker, ran, waits = Blocker(), list[str](), asyncio.Event()

    async def borrow(lease: Lease) -> None:
        running = asyncio.create_task(lease.call(lambda: blocker(NO_STATE)))
        pending = asyncio.create_task(lease.call(lambda: ran.append("pending")))
        assert await asyncio.to_thread(blocker.entered.wait, SECONDS)
        if not cancelled:
            raise ValueError("broken")
        waits.set()
        try:
            await asyncio.gather(running, pending)
        finally:
            ran.append("left")

    async def whole() -> None:
        async with rig.engine.lease(CPU, refuse=False) as lease:
            await borrow(lease)

    task = asyncio.create_task(whole())
    assert await asyncio.to_thread(blocker.entered.wait, SECONDS)
    waiting = rig.run([3])
    await begun(waiting)
    if cancelled:
        await asyncio.wait_for(waits.wait(), SECONDS)
        task.cancel()
    with pytest.raises(asyncio.CancelledError if cancelled else ValueError):
        await task
    blocker.release.set()
    assert await waiting == [3.0]
    assert ran == ["left"] * cancelled


async def test_closing_while_lent_ends_everybody() -> None:
    rig, blocker = Rig(), Blocker()
    async with rig.engine.lease(CPU, refuse=False) as lease:
        running = asyncio.create_task(lease.call(lambda: blocker(NO_STATE)))
        assert await asyncio.to_thread(blocker.entered.wait, SECONDS)
        pending, waiting = asyncio.create_task(lease.call(lambda: None)), rig.run([3])
        await begun(waiting)
        closing = asyncio.create_task(rig.engine.close())
        for task in (pending, waiting):
            with pytest.raises(Unavailable):
                await task
        blocker.release.set()
        await asyncio.gather(closing, running)
        with pytest.raises(Unavailable):
            await lease.call(lambda: None)
    with pytest.raises(Unavailable):
        async with rig.engine.lease(CPU, refuse=False):
            raise AssertionError("a closed engine lends nothing")
