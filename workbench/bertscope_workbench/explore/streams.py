"""Replies of the page's server: events as JSON, one a line, and errors as the page shows them."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from itertools import islice
from typing import Any, TypeVar

from bertscope import BertscopeError
from starlette.responses import StreamingResponse
from starlette.types import Send

from bertscope_workbench.explore.access import refusal
from bertscope_workbench.explore.plain import plain

Event = dict[str, Any]
"""One answer of a question: values that JSON has."""

logger = logging.getLogger(__name__)

Item = TypeVar("Item")
Result = TypeVar("Result")

AT_ONCE = 4
"""Items of a question that are asked at the same time."""


async def with_progress(
    call: Callable[..., Awaitable[Result]], event_of: Callable[[Result], Event]
) -> AsyncGenerator[Event, None]:
    """Yields `{"progress": ...}`, the fields of what a call tells its `on_progress`, any number of times, then the event of its
    result. Closing the generator cancels the call."""
    told: asyncio.Queue[Any] = asyncio.Queue()
    work = asyncio.ensure_future(call(on_progress=told.put_nowait))
    waiting = asyncio.ensure_future(told.get())
    try:
        while True:
            await asyncio.wait({work, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                break
            yield {"progress": plain(waiting.result())}
            waiting = asyncio.ensure_future(told.get())
        while not told.empty():  # The call ended before they were waited for.
            yield {"progress": plain(told.get_nowait())}
        yield event_of(work.result())
    finally:
        waiting.cancel()
        work.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await work


async def each_of(items: Sequence[Item], ask: Callable[[int, Item], Awaitable[Event]]) -> AsyncGenerator[Event, None]:
    """Yields the event of every item, asked by its index and itself, a few at a time, in the order in which they are answered.
    Closing the generator cancels what is being asked."""
    waiting = iter(enumerate(items))
    running: set[asyncio.Future[Event]] = set()
    try:
        while True:
            running |= {asyncio.ensure_future(ask(*each)) for each in islice(waiting, AT_ONCE - len(running))}
            if not running:
                return
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                yield task.result()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def error_event(error: Exception) -> Event:
    """Returns an error as the page shows it. One that is a bug of the page goes to the log, and says no more than that."""
    if not isinstance(error, BertscopeError):
        logger.error("a question of the page failed", exc_info=error)
        return refusal("INTERNAL", "the page's server failed; its terminal says where")
    return refusal(
        error.code.name,
        str(error),
        reason=error.reason,
        request_id=error.request_id,
        retry_after=error.retry_after,
        fields=[violation.field for violation in error.field_violations],
    )


class EventReply(StreamingResponse):
    """A reply of events, one JSON object a line, as they come.

    A browser that goes away ends the generator, and with it the call to the server. An error is the last event: the reply's
    HTTP code is 200 all the same, as browsers write other codes to their console, where only what is wrong with the page
    belongs.
    """

    def __init__(self, events: AsyncGenerator[Event, None]) -> None:
        self._lines = _lines(events)
        super().__init__(self._lines, media_type="application/x-ndjson; charset=utf-8")

    async def stream_response(self, send: Send) -> None:
        """Sends the reply. However that ends, the events end with it, and not when somebody collects the generator."""
        async with aclosing(self._lines):
            await super().stream_response(send)


async def _lines(events: AsyncGenerator[Event, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(events):
        try:
            async for event in events:
                yield _line(event)
        except Exception as error:  # noqa: BLE001  # every failure is told to the page
            yield _line(error_event(error))


def _line(event: Event) -> bytes:
    # allow_nan=False: JSON has no NaN, and JSON.parse refuses it.
    return json.dumps(event, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode() + b"\n"
