"""Builds models for benchmarks, one at a time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

from bertscope_service.errors import LoadAbandonedError
from bertscope_service.models.own_thread import in_own_thread

T = TypeVar("T")

Check = Callable[[], None]
"""Called regularly from the building thread; raises if nobody waits for the model any more."""


class Building:
    """Runs one build at a time, in a thread of its own. Belongs to the event loop.

    A thread can't be ended from outside, so an abandoned build goes on to its next check, and the next build begins after
    that: callers who cancel repeatedly can't have many models built at once.
    """

    def __init__(self) -> None:
        self._alone = asyncio.Lock()
        self._tasks: set[asyncio.Task[object]] = set()

    async def do(self, build: Callable[[Check], T]) -> T:
        """Runs a build that takes seconds. Cancelling returns at once. Raises what `build` raises."""
        abandoned = threading.Event()

        def check() -> None:
            if abandoned.is_set():
                raise LoadAbandonedError

        async def alone() -> T:
            async with self._alone:
                check()
                return await in_own_thread(lambda: build(check))

        task = asyncio.create_task(alone())
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            abandoned.set()
            raise
        finally:
            # Its error refers to the frames of all callers: their models would stay until they are garbage-collected.
            del task

    def _forget(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # nobody else retrieves the error of an abandoned build
