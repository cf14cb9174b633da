"""Computes on the host for calls, off the event loop: reads requests, merges results, renders large replies.

Interactive and bulk work have threads of their own. In each, clients take turns, and none has all threads: reading a request
of many megabytes takes seconds. There are few threads, for Python runs one at a time, and each that computes slows down the
event loop and the devices' threads. A client that is alone has all but one.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from bertscope_service import cancellation
from bertscope_service.cancellation import Cancellation, WorkCancelledError
from bertscope_service.engine.limits import processors
from bertscope_service.engine.refusals import stopping
from bertscope_service.engine.rows import Priority

T = TypeVar("T")

LEAST_THREADS, MOST_THREADS = 2, 4
"""Interactive work has a thread for each processor, between these; bulk work has the least. Tokenizers use all processors by
themselves, and more threads only queue for Python's lock: on two cores three planned as many calls of 128 texts a second as one
did, and the event loop was 4 ms late in place of 2 (the 95th percentile)."""


@dataclass(slots=True, eq=False)
class _Waiting:
    client: str
    begins: asyncio.Future[None]


class ComputePool:
    """Some threads, shared evenly by clients. It belongs to the event loop."""

    def __init__(self, name: str, threads: int = LEAST_THREADS) -> None:
        self._threads = threads
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=f"bertscope-{name}")
        self._queues: dict[str, deque[_Waiting]] = {}
        self._running = Counter[str]()
        self._work: set[Cancellation] = set()
        self._closed = False

    @property
    def waiting(self) -> int:
        """The number of calls whose work has not begun."""
        return sum(map(len, self._queues.values()))

    async def run(self, work: Callable[[], T], *, client: str, deadline: float | None) -> T:
        """Runs some work in a thread, in its client's turn. `deadline` is a time.monotonic().

        Cancelling this drops work that has not begun, and tells work that has to end: see `cancellation.check`. Raises
        DeadlineExceeded, Unavailable after `close`, and the errors of the work.
        """
        await self._turn(client)
        if self._closed:  # meanwhile: its turn came just before
            self._release(client)
            raise stopping()
        limits = Cancellation(deadline)
        self._work.add(limits)
        context = contextvars.copy_context()
        context.run(cancellation.current.set, limits)
        loop = asyncio.get_running_loop()
        try:
            # Its slot is taken until the thread is free: a cancelled caller does not wait for that.
            running = loop.run_in_executor(self._executor, partial(context.run, _checked, limits, work))
        except BaseException:
            self._end(client, limits)
            raise
        running.add_done_callback(lambda _: self._end(client, limits))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            limits.cancelled = True
            running.add_done_callback(_forget)
            raise
        except WorkCancelledError:  # by `close`
            raise stopping() from None

    def close(self) -> None:
        """Rejects new work and work that waits, and tells running work to end. Waits for nothing."""
        self._closed = True
        queues, self._queues = self._queues, {}
        for waiting in (one for queue in queues.values() for one in queue):
            if not waiting.begins.done():
                waiting.begins.set_exception(stopping())
        for limits in self._work:
            limits.cancelled = True
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def _turn(self, client: str) -> None:
        """Waits until a thread is free for this client's work, and takes it."""
        if self._closed:
            raise stopping()
        waiting = _Waiting(client, asyncio.get_running_loop().create_future())
        self._queues.setdefault(client, deque()).append(waiting)
        self._begin_next()
        try:
            await waiting.begins
        except asyncio.CancelledError:
            if waiting.begins.done() and not waiting.begins.cancelled() and waiting.begins.exception() is None:
                self._release(client)  # its turn had come
            else:
                self._drop(waiting)
            raise

    def _begin_next(self) -> None:
        """Gives free threads to the clients in turn, and the last one to a client that has none.

        Work can't be interrupted: if a client that is alone had all threads, the next one would wait for its seconds. A spare
        thread costs a lone client nothing, as its others keep Python's lock busy.
        """
        while (free := self._threads - self._running.total()) > 0:
            client = next((client for client in self._queues if free > 1 or not self._running[client]), None)
            if client is None:
                return
            queue = self._queues.pop(client)
            waiting = queue.popleft()
            if queue:
                self._queues[client] = queue  # behind the others
            if not waiting.begins.done():  # or it was cancelled, and nobody has removed it yet
                self._running[client] += 1
                waiting.begins.set_result(None)

    def _end(self, client: str, limits: Cancellation) -> None:
        self._work.discard(limits)
        self._release(client)

    def _release(self, client: str) -> None:
        self._running[client] -= 1
        if not self._running[client]:
            del self._running[client]
        self._begin_next()

    def _drop(self, waiting: _Waiting) -> None:
        queue = self._queues.get(waiting.client)
        if queue is not None and waiting in queue:
            queue.remove(waiting)
            if not queue:
                del self._queues[waiting.client]


class Computing:
    """The pools of a server."""

    def __init__(self) -> None:
        interactive = min(max(LEAST_THREADS, processors()), MOST_THREADS)
        threads = {Priority.INTERACTIVE: interactive, Priority.BULK: LEAST_THREADS}
        self._pools = {priority: ComputePool(priority.name.lower(), threads[priority]) for priority in Priority}

    def __getitem__(self, priority: Priority) -> ComputePool:
        return self._pools[priority]

    def close(self) -> None:
        """Closes all pools; see ComputePool.close."""
        for pool in self._pools.values():
            pool.close()


def _checked(limits: Cancellation, work: Callable[[], T]) -> T:
    limits.check()
    return work()


def _forget(running: asyncio.Future[Any]) -> None:
    """Reads the error of work whose caller has gone, or asyncio logs that nobody did."""
    if not running.cancelled():
        running.exception()
