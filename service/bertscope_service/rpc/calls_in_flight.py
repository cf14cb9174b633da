"""Tracks the calls that run on a server, and ends them when it stops."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, TypeAlias

import grpc

from bertscope_service.engine.refusals import stopping
from bertscope_service.rpc.status import sent_status

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

STATUS_SECONDS = 0.3
"""A status waits this long behind messages that nobody reads; a client that pauses longer finds the connection closed
instead."""


class CallsInFlight:
    """The running calls, until their replies have been sent. It belongs to the event loop."""

    def __init__(self) -> None:
        self._tasks: dict[Context, asyncio.Task[Any] | None] = {}
        self._sending: set[asyncio.Task[Any]] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    def __bool__(self) -> bool:
        return bool(self._tasks or self._sending)

    def __len__(self) -> int:
        """Returns the number of calls whose status is not known yet, without calls that only send still."""
        return len(self._tasks)

    def __contains__(self, context: Context) -> bool:
        return context in self._tasks

    def begin(self, context: Context) -> None:
        """Notes that a call runs, in the current task."""
        self._tasks[context] = asyncio.current_task()
        self._idle.clear()

    def end(self, context: Context) -> None:
        """Notes that a call's work is over and its status is known; it may have been cut off before.

        Its task still sends: a large reply to a slow reader takes a while.
        """
        task = self._tasks.pop(context, None)
        if task is not None and not task.done():
            self._sending.add(task)
            task.add_done_callback(self._sent)
        self._note_idle()

    async def finish(self, seconds: float) -> None:
        """Waits until no call runs, and all replies have been sent, for at most `seconds`."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), seconds)

    async def cut_off(self) -> None:
        """Ends all calls: clients get a status, after the messages sent before, that the server stops; their work is
        cancelled."""
        calls, self._tasks = self._tasks, {}
        self._sending.clear()
        self._idle.set()
        aborts = [asyncio.create_task(self._abort(context)) for context in calls]
        # Each has begun, so that no message of a cancelled call can precede it.
        await asyncio.sleep(0)
        for task in calls.values():
            if task is not None:
                task.cancel()
        await asyncio.gather(*aborts)

    def _sent(self, task: asyncio.Task[Any]) -> None:
        self._sending.discard(task)
        self._note_idle()

    def _note_idle(self) -> None:
        if not self:
            self._idle.set()

    async def _abort(self, context: Context) -> None:
        abort = context.abort(*sent_status(stopping(), ""))
        # It always raises, to end a servicer's own task that calls it.
        with contextlib.suppress(grpc.aio.AbortError, TimeoutError):
            await asyncio.wait_for(abort, STATUS_SECONDS)
