"""Replies of the page's server: events as JSON, one a line, and errors as the page shows them."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any, TypeVar

from bertscope import BertscopeError
from starlette.types import Receive, Scope, Send

from bertscope_workbench.explore.access import refusal

Event = dict[str, Any]
"""One answer of a question: values that JSON has."""

logger = logging.getLogger(__name__)

Progress = TypeVar("Progress")
Result = TypeVar("Result")


async def with_progress(
    call: Callable[[Callable[[Progress], object]], Awaitable[Result]],
) -> AsyncGenerator[Progress | Result, None]:
    """Yields what a call tells its `on_progress`, then its result. Closing the generator cancels the call.

    `call` takes the `on_progress` and returns the call.
    """
    told: asyncio.Queue[Progress] = asyncio.Queue()
    work = asyncio.ensure_future(call(told.put_nowait))
    waiting = asyncio.ensure_future(told.get())
    try:
        while True:
            await asyncio.wait({work, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                break
            yield waiting.result()
            waiting = asyncio.ensure_future(told.get())
        while not told.empty():  # The call ended before they were waited for.
            yield told.get_nowait()
        yield work.result()
    finally:
        waiting.cancel()
        work.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await work


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


class EventReply:
    """An ASGI reply of events, one JSON object a line, as they come.

    A browser that goes away ends the generator, and with it the call to the server. An error is the last event: the reply's
    HTTP code is 200 all the same, as browsers write other codes to their console, where only what is wrong with the page
    belongs.
    """

    def __init__(self, events: AsyncGenerator[Event, None]) -> None:
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the reply, until it is sent or nobody reads it."""
        work = asyncio.create_task(self._reply(send))
        gone = asyncio.create_task(_left(receive))
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (work, gone):
                task.cancel()
            ended = await asyncio.gather(work, gone, return_exceptions=True)
        if isinstance(ended[0], Exception) and not isinstance(ended[0], OSError):
            raise ended[0]

    async def _reply(self, send: Send) -> None:
        await send(_START)
        async with aclosing(self._events) as events:
            try:
                async for event in events:
                    await send(_line(event))
            except Exception as error:  # noqa: BLE001  # every failure is told to the page
                await send(_line(error_event(error)))
        await send({"type": "http.response.body", "body": b"", "more_body": False})


_START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"application/x-ndjson; charset=utf-8")],
}


def _line(event: Event) -> dict[str, Any]:
    # allow_nan=False: JSON has no NaN, and JSON.parse refuses it.
    body = json.dumps(event, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode() + b"\n"
    return {"type": "http.response.body", "body": body, "more_body": True}


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
