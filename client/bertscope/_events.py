"""Streams that tell their progress and end with a result: both clients follow them the same way."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing, closing
from typing import TypeVar

Message = TypeVar("Message")
Progress = TypeVar("Progress")
Result = TypeVar("Result")


def last(
    messages: Generator[Message, None, None],
    read: Callable[[Message], Progress | Result | None],
    progress: type[Progress],
    on_progress: Callable[[Progress], object] | None,
) -> Progress | Result | None:
    """The last event of a call, after `on_progress` heard of every one that is progress.

    An exception in `on_progress` ends the call. Messages that `read` makes None of are passed over.
    """
    found: Progress | Result | None = None
    with closing(messages):
        for message in messages:
            event = read(message)
            found = found if event is None else event
            if on_progress and isinstance(event, progress):
                on_progress(event)
    return found


async def last_of(
    messages: AsyncGenerator[Message, None],
    read: Callable[[Message], Progress | Result | None],
    progress: type[Progress],
    on_progress: Callable[[Progress], object] | None,
) -> Progress | Result | None:
    """The same for asyncio."""
    found: Progress | Result | None = None
    async with aclosing(messages):
        async for message in messages:
            event = read(message)
            found = found if event is None else event
            if on_progress and isinstance(event, progress):
                on_progress(event)
    return found
