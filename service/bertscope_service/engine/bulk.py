"""Runs many rows for one caller behind everybody's interactive rows, a bounded number of tokens at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

from bertscope_service.encoders.base import Encoder
from bertscope_service.engine.engine import Engine
from bertscope_service.engine.rows import Priority, Row
from bertscope_service.groups import within

AHEAD_BATCHES = 4
"""This many full batches wait at a time: enough to sort rows by length and to keep the device busy, and too few to fill the
queue."""

K = TypeVar("K")
T = TypeVar("T")


class BulkRunner:
    """Submits the rows of one caller to the engine. Only its first rows can be rejected by a full queue: begun work is
    finished."""

    def __init__(
        self, engine: Engine, encoder: Encoder, client: str, deadline: float | None, ahead: int = AHEAD_BATCHES
    ) -> None:
        """`deadline` is a time.monotonic(). ahead: the full batches of rows that wait, or whose results do; at least 2."""
        self._engine = engine
        self._client = client
        self._deadline = deadline
        self._batch_tokens = engine.batch_tokens(encoder.device)
        self._ahead = ahead
        self._admitted = False

    def slices(self, lengths: Sequence[int]) -> Iterator[slice]:
        """Yields groups of consecutive rows of these sizes, see Row.size, about a batch each."""
        return within(lengths, self._batch_tokens)

    async def results(self, lengths: Sequence[int], row: Callable[[int], Row]) -> AsyncGenerator[Any, None]:
        """Yields the result of each row, in order. `row` makes one by its number; `lengths` are the rows' sizes."""
        numbers = range(len(lengths))
        groups = ((None, [row(number) for number in numbers[part]]) for part in self.slices(lengths))
        async with aclosing(self.map(groups)) as found:
            async for _, results in found:
                for result in results:
                    yield result

    async def map(self, groups: Iterable[tuple[K, Sequence[Row]]]) -> AsyncGenerator[tuple[K, list[Any]], None]:
        """Yields the results of each group under its key, in order; a group is requested only when its rows may run soon.

        Closing the generator drops rows that have not run.
        """
        running: deque[tuple[K, int, asyncio.Task[list[Any]]]] = deque()
        ahead = 0
        try:
            for key, rows in groups:
                tokens = sum(row.size for row in rows)
                while running and ahead + tokens > self._ahead * self._batch_tokens:
                    done, freed, task = running.popleft()
                    yield done, await task
                    ahead -= freed
                task = asyncio.create_task(self.run(rows))
                running.append((key, tokens, task))
                ahead += tokens
                if not self._admitted:
                    await asyncio.sleep(0)  # until these rows wait or are rejected; after a rejection no others may follow
                    if task.done():
                        task.result()
            while running:
                done, _, task = running.popleft()
                yield done, await task
        finally:
            for _, _, task in running:
                task.cancel()
            # Only the error of the awaited task is raised.
            await asyncio.gather(*(task for _, _, task in running), return_exceptions=True)

    async def compute(self, work: Callable[[], T]) -> T:
        """Runs a computation on the host, see Engine.compute."""
        return await self._engine.compute(work, client=self._client, deadline=self._deadline, priority=Priority.BULK)

    async def run(self, rows: Sequence[Row]) -> list[Any]:
        """Runs some rows at once and returns one result each."""
        admitted, self._admitted = self._admitted, True
        return await self._engine.run(
            rows, client=self._client, deadline=self._deadline, priority=Priority.BULK, admitted=admitted
        )
