"""A row is one token sequence with its gates and what to observe; a job is the rows that one caller waits for."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, TypeVar

from bertscope_service.analyses.observer import Observer
from bertscope_service.encoders.base import Encoder, Gates, State, TokenSequence
from bertscope_service.engine.timeline import Timeline

T = TypeVar("T")


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
    kind: Hashable = field(init=False)
    """Its key, worked out once, when its job is made: a row that waits is looked at for many batches."""
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

    def __init__(
        self,
        rows: Sequence[Row],
        *,
        client: str,
        priority: Priority,
        deadline: float | None,
        timeline: Timeline | None = None,
    ) -> None:
        """`timeline` is told where the job's time goes."""
        self.rows = rows
        self.client = client
        self.priority = priority
        self.deadline = deadline
        self.tokens = sum(len(row.sequence) for row in rows)
        self.token_seconds = 0.0
        """How long a token is expected to take, going by the first row; 0 while that is not known."""
        self.results: list[Any] = [None] * len(rows)
        self.remaining = len(rows)
        self.timeline = timeline
        self.came = time.perf_counter()
        self.began: float | None = None
        """When the first of its rows began to run, time.perf_counter(); None before that."""
        self.loop = asyncio.get_running_loop()
        self.done: asyncio.Future[list[Any]] = self.loop.create_future()
        self.cancelled = False
        for index, row in enumerate(rows):
            row.job, row.index, row.kind = self, index, row.key

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


def deliver(parts: Mapping[Job, Sequence[tuple[int, Any]]]) -> None:
    """Hand results of some rows to their jobs, from any thread; each loop is woken once, however many jobs it has."""
    by_loop: defaultdict[asyncio.AbstractEventLoop, list[tuple[Job, Sequence[tuple[int, Any]]]]] = defaultdict(list)
    for job, results in parts.items():
        by_loop[job.loop].append((job, results))
    for loop, news in by_loop.items():
        _call(loop, _settle, news)


def tell(job: Job, error: BaseException) -> None:
    """Fail a job, from any thread."""
    _call(job.loop, job.fail, error)


def _settle(news: Sequence[tuple[Job, Sequence[tuple[int, Any]]]]) -> None:
    for job, results in news:
        job.settle(results)


def _call(loop: asyncio.AbstractEventLoop, function: Callable[[T], None], argument: T) -> None:
    """On the loop; one that was closed meanwhile has nobody left to tell."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(function, argument)


def deadline_after(seconds: float | None) -> float | None:
    """time.monotonic() in so many seconds."""
    return None if seconds is None else time.monotonic() + seconds
