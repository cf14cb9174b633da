"""Calls a server's rpcs for agents: a request in, a document out, with progress."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

from bertscope.rpc.async_connection import AsyncConnection
from google.protobuf.message import Message

from bertscope_workbench.agents import replies
from bertscope_workbench.agents.contract import Operation

SOON_SECONDS = 60.0
"""The time limit of calls that are answered soon; others run until they are done or cancelled."""

PROGRESS_SECONDS = 5.0
"""A call that says nothing by itself is reported so often, so that an agent does not take it for dead."""

Report = Callable[[float, float | None, str], Awaitable[None]]
"""Takes what is done, what there is in all, and a line."""


class Calls(AsyncConnection):
    """A connection that makes any call of the contract."""

    async def ask(self, operation: Operation, message: Message, report: Report) -> dict[str, Any]:
        """Makes a call, and returns its answer. Cancelling it cancels the call on the server. Raises BertscopeError."""
        if operation.streaming:
            return await self._events(operation, message, report)
        seconds = SOON_SECONDS if operation.soon else None
        return replies.document(await _reporting(self._call_long(message, operation.reply, seconds), operation.name, report))

    async def _events(self, operation: Operation, message: Message, report: Report) -> dict[str, Any]:
        answer, told = replies.Stream(), Told(operation.name, report)
        async with aclosing(self._stream(message, operation.reply, None)) as messages:
            async for each in messages:
                name, event = answer.add(each)
                done, total, said = replies.steps(event)
                if name == replies.PROGRESS:
                    await told.tell(done, total, said)
                else:
                    await told.tell(answer.count, total, name)
        return answer.document()


class Told:
    """Tells how far a stream is. What is told only grows, as the protocol demands: a second stage counts on from the first."""

    def __init__(self, name: str, report: Report) -> None:
        """Takes the name of the call."""
        self._name, self._report = name, report
        self._base = self._done = 0.0
        self._total: float | None = None
        self._last = -1.0

    async def tell(self, done: float | None, total: float | None, said: str) -> None:
        """Tells it unless nothing was done since."""
        done = self._done if done is None else done
        if done < self._done:
            self._base, self._total = self._base + self._done, None
        self._done, self._total = done, total if total is not None else self._total
        reached = self._base + done
        if reached > self._last:
            self._last = reached
            await self._report(reached, None if self._total is None else self._base + self._total, f"{self._name}: {said}")


async def _reporting(work: Awaitable[Message], name: str, report: Report) -> Message:
    """Awaits a call, and reports every few seconds that it still runs."""
    began = time.monotonic()
    task = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait({task}, timeout=PROGRESS_SECONDS))[0]:
            seconds = time.monotonic() - began
            await report(seconds, None, f"{name} has run for {seconds:.0f} s")
        return task.result()
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await task
