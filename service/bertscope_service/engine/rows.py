"""A row is one token sequence with its gates and what to observe; a job is the rows that one caller waits for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from bertscope_service.analyses.observer import Observer
from bertscope_service.encoders.base import Encoder, Gates, State, TokenSequence


class Priority(IntEnum):
    """Which rows go first."""

    INTERACTIVE = 0
    BULK = 1


@dataclass(slots=True, eq=False)
class Row:
    """One token sequence to run. With a `state`, it continues from there instead of from its embeddings."""

    encoder: Encoder
    sequence: TokenSequence
    observer: Observer
    gates: Gates | None = None
    state: State | None = None
    job: Job = field(init=False)
    index: int = field(init=False)
    taken: bool = field(default=False, init=False)

    @property
    def key(self) -> Hashable:
        """Rows with an equal key may share a batch."""
        state = self.state
        stand = None if state is None else (state.layer, state.context is None)
        return id(self.encoder), type(self.observer), self.observer.group, stand


class Job:
    """The rows of one caller, their results in the same order, and whether anybody still waits for them.

    Belongs to the event loop it was made on; the worker's thread only reads `abandoned` and hands results to `settle`.
    """

    def __init__(self, rows: Sequence[Row], *, client: str, priority: Priority, deadline: float | None) -> None:
        self.rows = rows
        self.client = client
        self.priority = priority
        self.deadline = deadline
        self.results: list[Any] = [None] * len(rows)
        self.remaining = len(rows)
        self.loop = asyncio.get_running_loop()
        self.done: asyncio.Future[list[Any]] = self.loop.create_future()
        self.cancelled = False
        for index, row in enumerate(rows):
            row.job, row.index = self, index

    @property
    def tokens(self) -> int:
        return sum(len(row.sequence) for row in self.rows)

    def abandoned(self, now: float) -> str | None:
        """Why nobody waits for this job any more: "cancelled", "deadline" (`now` is time.monotonic()), or None."""
        if self.cancelled:
            return "cancelled"
        return "deadline" if self.deadline is not None and now >= self.deadline else None

    def settle(self, results: Sequence[tuple[int, Any]]) -> None:
        """Take results of some rows; on the job's loop."""
        for index, result in results:
            self.results[index] = result
        self.remaining -= len(results)
        if not self.remaining and not self.done.done():
            self.done.set_result(self.results)

    def fail(self, error: BaseException) -> None:
        """Give up on all rows; on the job's loop."""
        self.cancelled = True
        if not self.done.done():
            self.done.set_exception(error)


def deadline_after(seconds: float | None) -> float | None:
    """time.monotonic() in so many seconds."""
    return None if seconds is None else time.monotonic() + seconds
