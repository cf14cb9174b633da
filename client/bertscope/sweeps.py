"""Sweeps that run: effects as they arrive, and the whole table at the end."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator

from bertscope._ablation_replies import SweepAssembler
from bertscope._streams import AsyncReading, Reading
from bertscope.ablation import CurvePoint, HeadEffect, SweepStart, SweepTable
from bertscope.v1 import ablation_pb2

Effect = HeadEffect | CurvePoint
Response = ablation_pb2.SweepHeadsResponse


class HeadSweep(Reading[Effect, SweepTable]):
    """A sweep that runs: gives a `HeadEffect` (a `CurvePoint`, if greedy) at a time, or all of them as a `table`.

    The call begins when the first thing is asked for. Leaving the sweep as a context manager, or `close`, cancels it. A
    reader that stops reading pauses it.

    >>> with client.sweep_heads(objective) as sweep:  # doctest: +SKIP
    ...     for effect in sweep:
    ...         print(effect.layer, effect.head, effect.difference)
    ...     table = sweep.table()
    """

    what = "sweep"

    def __init__(self, request: ablation_pb2.SweepHeadsRequest, messages: Generator[Response, None, None]) -> None:
        """Made by `Client.sweep_heads`."""
        self._assembler = SweepAssembler(request)
        super().__init__(self._assembler, messages)

    @property
    def start(self) -> SweepStart:
        """The baseline and the counts; waits until they are here."""
        while self._assembler.start is None:
            try:
                next(self._events)
            except StopIteration:
                raise self._why_not() from None
        return self._assembler.start


class AsyncHeadSweep(AsyncReading[Effect, SweepTable]):
    """The same as `HeadSweep`, for asyncio: `async for`, `await sweep.started()`, `await sweep.table()`, `aclose`."""

    what = "sweep"

    def __init__(self, request: ablation_pb2.SweepHeadsRequest, messages: AsyncGenerator[Response, None]) -> None:
        """Made by `AsyncClient.sweep_heads`."""
        self._assembler = SweepAssembler(request)
        super().__init__(self._assembler, messages)

    async def started(self) -> SweepStart:
        """The baseline and the counts, see `HeadSweep.start`."""
        while self._assembler.start is None:
            try:
                await anext(self._events)
            except StopAsyncIteration:
                raise self._why_not() from None
        return self._assembler.start
