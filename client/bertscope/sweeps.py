"""Sweeps that run: effects as they arrive, and the whole table at the end."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import aclosing, closing
from typing import Self

from bertscope._ablation_replies import SweepAssembler
from bertscope.ablation import CurvePoint, HeadEffect, SweepStart, SweepTable
from bertscope.errors import BertscopeError, Cancelled
from bertscope.v1 import ablation_pb2

Effect = HeadEffect | CurvePoint
Response = ablation_pb2.SweepHeadsResponse


class _Sweep:
    """What both kinds of sweep keep."""

    def __init__(self, request: ablation_pb2.SweepHeadsRequest) -> None:
        self._assembler = SweepAssembler(request)
        self._table: SweepTable | None = None
        self._failure: BertscopeError | None = None

    def _why_not(self) -> BertscopeError:
        """Why there is nothing more to come, of a sweep that has not come to its end."""
        return self._failure or Cancelled("the sweep was closed before it ended")


class HeadSweep(_Sweep, Iterator[Effect]):
    """A sweep that runs: gives a `HeadEffect` (a `CurvePoint`, if greedy) at a time, or all of them as a `table`.

    The call begins when the first thing is asked for. Leaving the sweep as a context manager, or `close`, cancels it. A
    reader that stops reading pauses it.

    >>> with client.sweep_heads(objective) as sweep:  # doctest: +SKIP
    ...     for effect in sweep:
    ...         print(effect.layer, effect.head, effect.difference)
    ...     table = sweep.table()
    """

    def __init__(self, request: ablation_pb2.SweepHeadsRequest, messages: Generator[Response, None, None]) -> None:
        """Made by `Client.sweep_heads`."""
        super().__init__(request)
        self._events = self._read(messages)

    @property
    def start(self) -> SweepStart:
        """The baseline and the counts; waits until they are here."""
        while self._assembler.start is None:
            try:
                next(self._events)
            except StopIteration:
                raise self._why_not() from None
        return self._assembler.start

    def table(self) -> SweepTable:
        """The whole sweep, what was read before included; waits for the rest. Raises Cancelled if it was closed."""
        for _ in self:
            pass
        if self._table is None:
            raise self._why_not()
        return self._table

    def close(self) -> None:
        """Cancels the call if it still runs."""
        self._events.close()

    def __next__(self) -> Effect:
        for effect in self._events:
            if effect is not None:
                return effect
        raise StopIteration

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self, messages: Generator[Response, None, None]) -> Generator[Effect | None, None, None]:
        try:
            with closing(messages):
                for message in messages:
                    yield self._assembler.add(message)
            self._table = self._assembler.end()
        except BertscopeError as error:
            self._failure = error
            raise


class AsyncHeadSweep(_Sweep, AsyncIterator[Effect]):
    """The same as `HeadSweep`, for asyncio: `async for`, `await sweep.started()`, `await sweep.table()`, `aclose`."""

    def __init__(self, request: ablation_pb2.SweepHeadsRequest, messages: AsyncGenerator[Response, None]) -> None:
        """Made by `AsyncClient.sweep_heads`."""
        super().__init__(request)
        self._events = self._read(messages)

    async def started(self) -> SweepStart:
        """The baseline and the counts, see `HeadSweep.start`."""
        while self._assembler.start is None:
            try:
                await anext(self._events)
            except StopAsyncIteration:
                raise self._why_not() from None
        return self._assembler.start

    async def table(self) -> SweepTable:
        """The whole sweep, see `HeadSweep.table`."""
        async for _ in self:
            pass
        if self._table is None:
            raise self._why_not()
        return self._table

    async def aclose(self) -> None:
        """Cancels the call if it still runs."""
        await self._events.aclose()

    async def __anext__(self) -> Effect:
        async for effect in self._events:
            if effect is not None:
                return effect
        raise StopAsyncIteration

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _read(self, messages: AsyncGenerator[Response, None]) -> AsyncGenerator[Effect | None, None]:
        try:
            async with aclosing(messages):
                async for message in messages:
                    yield self._assembler.add(message)
            self._table = self._assembler.end()
        except BertscopeError as error:
            self._failure = error
            raise
