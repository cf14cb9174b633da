"""The calls that run on a server, and how they end when it stops."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, TypeAlias

import grpc
from grpc_status import rpc_status

from bertscope_service.engine.lease import stopping
from bertscope_service.statuses import to_status

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

LAST_WORD_SECONDS = 0.3
"""So long a status may wait behind messages that nobody reads; who pauses longer finds the connection closed instead."""


class RunningCalls:
    """Calls at work, until their answers have left. Belongs to the event loop."""

    def __init__(self) -> None:
        self._tasks: dict[Context, asyncio.Task[Any] | None] = {}
        self._sending: set[asyncio.Task[Any]] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    def __bool__(self) -> bool:
        return bool(self._tasks or self._sending)

    def __len__(self) -> int:
        """Calls whose status is not known yet; those that only send still are not among them."""
        return len(self._tasks)

    def __contains__(self, context: Context) -> bool:
        return context in self._tasks

    def begin(self, context: Context) -> None:
        """A call runs, in the current task."""
        self._tasks[context] = asyncio.current_task()
        self._idle.clear()

    def end(self, context: Context) -> None:
        """Nothing works for a call any more, and its status is known; it may have been cut off before.

        Its task still sends: a large reply to a slow reader takes a while.
        """
        task = self._tasks.pop(context, None)
        if task is not None and not task.done():
            self._sending.add(task)
            task.add_done_callback(self._sent)
        self._note_idle()

    async def finish(self, seconds: float) -> None:
        """Wait until no call runs, and all answers have left, at most so long."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), seconds)

    async def cut_off(self) -> None:
        """End all calls: callers hear, behind what was sent before, that the server stops; what works for them is cancelled."""
        calls, self._tasks = self._tasks, {}
        self._sending.clear()
        self._idle.set()
        last_words = [asyncio.create_task(self._tell(context)) for context in calls]
        # Each has begun, so that nothing a cancelled call still says can come before it.
        await asyncio.sleep(0)
        for task in calls.values():
            if task is not None:
                task.cancel()
        await asyncio.gather(*last_words)

    def _sent(self, task: asyncio.Task[Any]) -> None:
        self._sending.discard(task)
        self._note_idle()

    def _note_idle(self) -> None:
        if not self:
            self._idle.set()

    async def _tell(self, context: Context) -> None:
        status = rpc_status.to_status(to_status(stopping(), ""))
        abort = context.abort(status.code, status.details, tuple(status.trailing_metadata or ()))
        # It raises in any case: what ends a servicer's own task when that calls it.
        with contextlib.suppress(grpc.aio.AbortError, TimeoutError):
            await asyncio.wait_for(abort, LAST_WORD_SECONDS)
