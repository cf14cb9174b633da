"""Computations off the loop: whose turn it is, and how they end."""

import asyncio
import threading
import time
from collections.abc import Callable
from functools import partial

import pytest
from bertscope_service import cancellation
from bertscope_service.engine.computing import ComputePool
from bertscope_service.engine.daemon_thread import in_daemon_thread
from bertscope_service.errors import DeadlineExceeded, Unavailable

from tests.support.patience import granted

pytestmark = pytest.mark.asyncio
WAIT_SECONDS = granted(30.0)


class Gate:
    """Work that waits until it is let through, and notes that it began."""

    def __init__(self) -> None:
        self.began, self.open = threading.Event(), threading.Event()

    def __call__(self) -> str:
        self.began.set()
        assert self.open.wait(WAIT_SECONDS)
        return "done"


def endless() -> None:
    """Work that ends by its checks alone."""
    while True:
        cancellation.check()
        time.sleep(0.001)  # the loop of a real computation has something to do


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition():  # noqa: ASYNC110 - another thread makes it true
            await asyncio.sleep(0.001)


async def test_one_client_never_has_all_threads_and_clients_take_turns() -> None:
    order: list[str] = []

    pool, gates = ComputePool("test", threads=2), [Gate(), Gate()]
    first = asyncio.create_task(pool.run(gates[0], client="greedy", deadline=None))
    await until(gates[0].began.is_set)
    waiting = [
        asyncio.create_task(pool.run(lambda number=number: order.append(f"greedy {number}"), client="greedy", deadline=None))
        for number in range(3)
    ]
    await asyncio.sleep(0)
    await pool.run(lambda: order.append("modest"), client="modest", deadline=None)
    assert order == ["modest"]
    other = asyncio.create_task(pool.run(gates[1], client="other", deadline=None))
    await until(gates[1].began.is_set)
    late = asyncio.create_task(pool.run(lambda: order.append("late"), client="late", deadline=None))
    await asyncio.sleep(0)
    assert pool.waiting == 4
    gates[0].open.set()
    await asyncio.gather(first, *waiting, late)
    assert order.index("late") <= 2  # behind one of the greedy client's that waited before, at most
    gates[1].open.set()
    assert await other == "done"
    pool.close()


async def test_a_client_alone_has_all_threads_but_the_one_for_the_next_client() -> None:
    pool, gates, order = ComputePool("test", threads=4), [Gate() for _ in range(5)], list[str]()
    long = [asyncio.create_task(pool.run(gate, client="greedy", deadline=None)) for gate in gates[:4]]
    await until(lambda: all(gate.began.is_set() for gate in gates[:3]))
    assert pool.waiting == 1
    await pool.run(lambda: order.append("new"), client="new", deadline=None)
    gates[0].open.set()
    await until(gates[3].began.is_set)  # the work that has ended lets the next of the same client begin
    taken = asyncio.create_task(pool.run(gates[4], client="other", deadline=None))
    await until(gates[4].began.is_set)
    gates[1].open.set()
    await long[1]
    waiting = [
        asyncio.create_task(pool.run(partial(order.append, client), client=client, deadline=None))
        for client in ("greedy", "other", "third")
    ]
    await until(lambda: "third" in order)  # the last free thread is for a client that has none, whoever waits before it
    assert order == ["new", "third"]
    for gate in gates:
        gate.open.set()
    await asyncio.gather(taken, *long, *waiting)
    pool.close()


async def test_cancelled_work_ends_at_its_next_check_and_frees_its_thread() -> None:
    pool = ComputePool("test", threads=1)
    began = threading.Event()

    def work() -> None:
        began.set()
        endless()

    task = asyncio.create_task(pool.run(work, client="a", deadline=None))
    await until(began.is_set)
    waiting = asyncio.create_task(pool.run(lambda: "never", client="a", deadline=None))
    await asyncio.sleep(0)
    for one in (waiting, task):
        one.cancel()
        with pytest.raises(asyncio.CancelledError):
            await one
    assert pool.waiting == 0
    assert await asyncio.wait_for(pool.run(lambda: "next", client="a", deadline=None), WAIT_SECONDS) == "next"
    pool.close()


async def test_a_turn_that_comes_to_a_cancelled_caller_goes_to_the_next() -> None:
    """Both in one iteration of the loop: the caller has not run since."""
    pool, gate = ComputePool("test", threads=1), Gate()
    first = asyncio.create_task(pool.run(gate, client="a", deadline=None))
    await until(gate.began.is_set)
    gone, next_one = (asyncio.create_task(pool.run(lambda: "mine", client=name, deadline=None)) for name in "bc")
    await asyncio.sleep(0)
    first.add_done_callback(lambda _: gone.cancel())
    gone.cancel()
    gate.open.set()
    assert await asyncio.wait_for(next_one, WAIT_SECONDS) == "mine"
    assert await first == "done"
    pool.close()


async def test_work_ends_at_its_deadline() -> None:
    pool = ComputePool("test")
    for seconds in (0.0, 0.05):
        with pytest.raises(DeadlineExceeded):
            await pool.run(endless, client="a", deadline=time.monotonic() + seconds)
    assert await pool.run(lambda: "in time", client="a", deadline=time.monotonic() + WAIT_SECONDS) == "in time"
    pool.close()


async def test_a_closed_pool_refuses_and_ends_all_work() -> None:
    pool, began = ComputePool("test", threads=1), threading.Event()

    def work() -> None:
        began.set()
        endless()

    tasks = [asyncio.create_task(pool.run(work, client="a", deadline=None)) for _ in range(3)]
    await until(began.is_set)
    pool.close()
    for task in tasks:
        with pytest.raises(Unavailable):
            await asyncio.wait_for(task, WAIT_SECONDS)
    with pytest.raises(Unavailable):
        await pool.run(lambda: None, client="a", deadline=None)


async def test_errors_reach_the_caller_and_checks_outside_do_nothing() -> None:
    pool = ComputePool("test")

    def fail() -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await pool.run(fail, client="a", deadline=None)
    with pytest.raises(ValueError, match="mine"):
        await in_daemon_thread(fail)
    assert await in_daemon_thread(lambda: threading.current_thread().daemon) is True
    cancellation.check()
    pool.close()


async def test_a_turn_that_comes_as_the_pool_closes_is_refused() -> None:
    pool, gate = ComputePool("test", threads=1), Gate()
    first = asyncio.create_task(pool.run(gate, client="a", deadline=None))
    await until(gate.began.is_set)
    second = asyncio.create_task(pool.run(lambda: "late", client="b", deadline=None))
    await asyncio.sleep(0)
    pool._release("a")  # as when the first has ended, before the second runs on
    pool.close()
    with pytest.raises(Unavailable):
        await second
    pool._running["a"] += 1
    gate.open.set()
    assert await first == "done"
