"""Runs many rows for one caller behind everybody's interactive ones, a bounded number of tokens at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

from bertscope_service.encoders.base import Encoder
from bertscope_service.engine.engine import Engine
from bertscope_service.engine.rows import Priority, Row

AHEAD_BATCHES = 4
"""So many full batches wait at a time: enough to sort rows by length and to keep the device busy, and too few to fill the
queue."""

K = TypeVar("K")


class BulkRunner:
    """One caller's way to the engine. Only its first rows can be turned away by a full queue: what was begun is finished."""

    def __init__(self, engine: Engine, encoder: Encoder, client: str, deadline: float | None) -> None:
        """`deadline` is a time.monotonic()."""
        self._engine = engine
        self._client = client
        self._deadline = deadline
        self._batch_tokens = engine.batch_tokens(encoder.device)
        self._admitted = False

    def slices(self, lengths: Sequence[int]) -> Iterator[slice]:
        """Consecutive rows of so many tokens, in groups of about a batch."""
        return within(lengths, self._batch_tokens)

    async def results(self, lengths: Sequence[int], row: Callable[[int], Row]) -> AsyncGenerator[Any, None]:
        """The result of each of some rows, in order. `row` makes one by its number; `lengths` are their tokens."""
        numbers = range(len(lengths))
        groups = ((None, [row(number) for number in numbers[part]]) for part in self.slices(lengths))
        async with aclosing(self.map(groups)) as found:
            async for _, results in found:
                for result in results:
                    yield result

    async def map(self, groups: Iterable[tuple[K, Sequence[Row]]]) -> AsyncGenerator[tuple[K, list[Any]], None]:
        """The results of each group under its key, in order; groups are asked for only when their rows may run soon.

        Closing the generator drops what has not run.
        """
        running: deque[tuple[K, int, asyncio.Task[list[Any]]]] = deque()
        ahead = 0
        try:
            for key, rows in groups:
                tokens = sum(len(row.sequence) for row in rows)
                while running and ahead + tokens > AHEAD_BATCHES * self._batch_tokens:
                    done, freed, task = running.popleft()
                    yield done, await task
                    ahead -= freed
                task = asyncio.create_task(self.run(rows))
                running.append((key, tokens, task))
                ahead += tokens
                if not self._admitted:
                    await asyncio.sleep(0)  # until these rows wait, or are turned away: then no others may follow them
                    if task.done():
                        task.result()
            while running:
                done, _, task = running.popleft()
                yield done, await task
        finally:
            for _, _, task in running:
                task.cancel()
            # What a task raised is told once, by the one that was waited for.
            await asyncio.gather(*(task for _, _, task in running), return_exceptions=True)

    async def run(self, rows: Sequence[Row]) -> list[Any]:
        """Results of some rows, one each, all at once."""
        admitted, self._admitted = self._admitted, True
        return await self._engine.run(
            rows, client=self._client, deadline=self._deadline, priority=Priority.BULK, admitted=admitted
        )


def within(sizes: Sequence[int], limit: int) -> Iterator[slice]:
    """Consecutive groups of at most `limit` together, or of one alone that is larger."""
    begin = total = 0
    for index, size in enumerate(sizes):
        if index > begin and total + size > limit:
            yield slice(begin, index)
            begin, total = index, 0
        total += size
    if begin < len(sizes):
        yield slice(begin, len(sizes))
