"""Streams of items that make a whole at their end: both clients' sweeps and studies read them the same way."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import aclosing, closing
from typing import Generic, Protocol, Self, TypeVar

from bertscope.errors import BertscopeError, Cancelled

Message = TypeVar("Message")
TakenMessage = TypeVar("TakenMessage", contravariant=True)
Item = TypeVar("Item")
GivenItem = TypeVar("GivenItem", covariant=True)
Whole = TypeVar("Whole")
GivenWhole = TypeVar("GivenWhole", covariant=True)


class Assembler(Protocol[TakenMessage, GivenItem, GivenWhole]):
    """The state of one stream: messages in, items out, and the whole at the end."""

    def add(self, message: TakenMessage) -> GivenItem | None:
        """Takes in one message; gives the item that it brings, if it does."""

    def end(self) -> GivenWhole:
        """The whole. Raises InvalidReply if the stream ended before it was complete."""


class _Reading(Generic[Item, Whole]):
    """What both kinds of reading keep."""

    what = "stream"
    """The stream in one word, for messages."""

    def __init__(self) -> None:
        self._whole: Whole | None = None
        self._failure: BertscopeError | None = None

    def _why_not(self) -> BertscopeError:
        """Why there is nothing more to come, of a stream that has not come to its end."""
        return self._failure or Cancelled(f"the {self.what} was closed before it ended")

    def _the_whole(self) -> Whole:
        if self._whole is None:
            raise self._why_not()
        return self._whole


class Reading(_Reading[Item, Whole], Iterator[Item]):
    """A stream that is read with `for`; a context manager, which cancels the call at its end."""

    def __init__(self, assembler: Assembler[Message, Item, Whole], messages: Generator[Message, None, None]) -> None:
        super().__init__()
        self._events = self._read(assembler, messages)

    def table(self) -> Whole:
        """All of it, what was read before included; waits for the rest. Raises Cancelled if it was closed."""
        for _ in self:
            pass
        return self._the_whole()

    def close(self) -> None:
        """Cancels the call if it still runs."""
        self._events.close()

    def __next__(self) -> Item:
        for item in self._events:
            if item is not None:
                return item
        raise StopIteration

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(
        self, assembler: Assembler[Message, Item, Whole], messages: Generator[Message, None, None]
    ) -> Generator[Item | None, None, None]:
        try:
            with closing(messages):
                for message in messages:
                    yield assembler.add(message)
            self._whole = assembler.end()
        except BertscopeError as error:
            self._failure = error
            raise


class AsyncReading(_Reading[Item, Whole], AsyncIterator[Item]):
    """The same for asyncio: `async for`, `await ....table()`, `aclose`."""

    def __init__(self, assembler: Assembler[Message, Item, Whole], messages: AsyncGenerator[Message, None]) -> None:
        super().__init__()
        self._events = self._read(assembler, messages)

    async def table(self) -> Whole:
        """All of it, see the class without Async."""
        async for _ in self:
            pass
        return self._the_whole()

    async def aclose(self) -> None:
        """Cancels the call if it still runs."""
        await self._events.aclose()

    async def __anext__(self) -> Item:
        async for item in self._events:
            if item is not None:
                return item
        raise StopAsyncIteration

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _read(
        self, assembler: Assembler[Message, Item, Whole], messages: AsyncGenerator[Message, None]
    ) -> AsyncGenerator[Item | None, None]:
        try:
            async with aclosing(messages):
                async for message in messages:
                    yield assembler.add(message)
            self._whole = assembler.end()
        except BertscopeError as error:
            self._failure = error
            raise
