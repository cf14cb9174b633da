"""Defines rows and jobs: a row is one token sequence with its gates and observer; a job is the rows of one call."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from operator import attrgetter
from typing import Any, TypeVar

from bertscope_service import cancellation
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.observer import Observer
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.state import State
from bertscope_service.observability.timeline import Timeline

T = TypeVar("T")
_LENGTH: Callable[[Row], int] = attrgetter("length")

FEW_CHANGES = 16
"""Rows with more changes cost more than their tokens say: they get batches, and a rate, of their own."""


class Priority(IntEnum):
    """The order in which rows run."""

    INTERACTIVE = 0
    BULK = 1


@dataclass(slots=True, eq=False)
class Row:
    """One token sequence to run. With a `state`, it continues from there instead of from its embeddings."""

    encoder: Encoder
    sequence: TokenSequence
    observer: Observer
    edits: Edits | None = None
    state: State | None = None
    alone: bool = False
    """It gets a batch of its own: its cost is not that of its tokens."""
    job: Job = field(init=False)
    index: int = field(init=False)
    length: int = field(init=False)
    """Its tokens."""
    kind: Hashable = field(init=False)
    """Rows of one kind may share a batch."""
    pace: Hashable = field(init=False)
    """Rows of one pace take equally long for a token. All three are computed once, when its job is made: a waiting row is
    considered for many batches."""
    taken: bool = field(default=False, init=False)
    """True once it has left the queue, for a batch or because nobody waits for it any more."""
    token_seconds: float = field(default=0.0, init=False)
    """The seconds that clients were charged for a token when a batch was taken, in its first row."""

    @property
    def keys(self) -> tuple[Hashable, Hashable]:
        """Its kind and its pace."""
        state, observer = self.state, self.observer
        position = None if state is None else (state.layer, state.context is None)
        same = id(self.encoder), type(observer), position, self.many_changes
        group = observer.group
        return (*same, group), (*same, getattr(observer, "cost", group))

    @property
    def size(self) -> int:
        """Its tokens, or the vectors of its result if they are more."""
        return max(len(self.sequence), getattr(self.observer, "vectors", 0))

    @property
    def many_changes(self) -> int:
        """0 for a row with few changes inside the model, else the power of two above their number."""
        count = 0 if self.edits is None else len(self.edits.changes) + len(self.edits.entering)
        return count.bit_length() if count > FEW_CHANGES else 0

    @property
    def unpadded(self) -> bool:
        """True if padding costs a batch of such rows next to nothing."""
        return self.encoder.capabilities.unpadded and not getattr(self.observer, "reads_places", True)


class Job:
    """The rows of one caller, their results in the same order, and whether anybody still waits for them.

    It belongs to the event loop that it was made on; the worker's thread only reads `abandoned` and passes results to `settle`.
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
        """`timeline` records how the job's time is spent."""
        self.rows = rows
        self.client = client
        self.priority = priority
        self.deadline = deadline
        self.tokens = _join(rows, self)
        self.token_seconds = 0.0
        """The expected seconds per token, from the first row; 0 while unknown."""
        self.results: list[Any] = [None] * len(rows)
        self.remaining = len(rows)
        self.timeline = timeline
        self.created = time.perf_counter()
        self.began: float | None = None
        """When its first row began to run, as time.perf_counter(); None before that."""
        self.loop = asyncio.get_running_loop()
        self.done: asyncio.Future[list[Any]] = self.loop.create_future()
        self.cancelled = False

    def abandoned(self, now: float) -> str | None:
        """Returns why nobody waits for this job any more: "cancelled", "deadline" (`now` is time.monotonic()), or None."""
        if self.cancelled:
            return "cancelled"
        return "deadline" if self.deadline is not None and now >= self.deadline else None

    def settle(self, results: Sequence[tuple[int, Any]]) -> None:
        """Stores results of some rows; on the job's loop."""
        for index, result in results:
            self.results[index] = result
        self.remaining -= len(results)
        if not self.remaining and not self.done.done():
            self.done.set_result(self.results)

    def fail(self, error: BaseException) -> None:
        """Fails all rows with an error; on the job's loop."""
        self.cancelled = True
        if not self.done.done():
            self.done.set_exception(error)


def _join(rows: Sequence[Row], job: Job) -> int:
    """Makes rows those of a job. Returns their tokens."""
    keys: dict[tuple[int, int, int], tuple[Hashable, Hashable]] = {}
    tokens = 0
    for index, row in enumerate(rows):
        row.job, row.index, row.length = job, index, len(row.sequence)
        tokens += row.length
        if row.state is not None:
            row.kind, row.pace = row.keys
            continue
        same = id(row.encoder), id(row.observer), row.many_changes
        if same not in keys:
            keys[same] = row.keys
        row.kind, row.pace = keys[same]
    return tokens


def place_changes(rows: Sequence[Row]) -> None:
    """Finds the positions of all changes inside the model. Raises InvalidArgument for a row that has no such positions."""
    for row in rows:
        cancellation.check()
        if row.edits is not None:
            row.edits = row.edits.at(row.sequence)


def changes_to_place(rows: Sequence[Row]) -> int:
    """Returns the number of changes whose positions are still to be found."""
    return sum(row.edits.to_place for row in rows if row.edits is not None)


def by_job(rows: Iterable[Row]) -> dict[Job, list[Row]]:
    """Groups rows by their jobs, in order."""
    jobs: defaultdict[Job, list[Row]] = defaultdict(list)
    for row in rows:
        jobs[row.job].append(row)
    return jobs


def tokens_of(rows: Iterable[Row]) -> int:
    """Returns the tokens of all rows, without padding."""
    return sum(map(_LENGTH, rows))


def longest(rows: Iterable[Row]) -> int:
    """Returns the tokens of the longest row."""
    return max(map(_LENGTH, rows))


def deliver(parts: Mapping[Job, Sequence[tuple[int, Any]]]) -> None:
    """Passes results of rows to their jobs, from any thread; each loop is woken once, however many jobs it has."""
    by_loop: defaultdict[asyncio.AbstractEventLoop, list[tuple[Job, Sequence[tuple[int, Any]]]]] = defaultdict(list)
    for job, results in parts.items():
        by_loop[job.loop].append((job, results))
    for loop, settled in by_loop.items():
        _call(loop, _settle, settled)


def fail_job(job: Job, error: BaseException) -> None:
    """Fails a job, from any thread."""
    _call(job.loop, job.fail, error)


def future_error(error: BaseException) -> Exception:
    """Returns an error that a future can carry. An error that would end the event loop, or look like a cancellation or the end
    of an iteration, becomes the cause of another."""
    if isinstance(error, Exception) and not isinstance(error, (StopIteration, concurrent.futures.CancelledError)):
        return error
    wrapped = RuntimeError(f"{type(error).__name__} on a device's thread")
    wrapped.__cause__ = error
    return wrapped


def _settle(parts: Sequence[tuple[Job, Sequence[tuple[int, Any]]]]) -> None:
    for job, results in parts:
        try:
            job.settle(results)
        except Exception as error:  # noqa: BLE001 - only its own caller gets it; the following jobs get their results
            job.fail(error)


def _call(loop: asyncio.AbstractEventLoop, function: Callable[[T], None], argument: T) -> None:
    """Calls a function on the loop; does nothing if the loop was closed meanwhile."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(function, argument)


def deadline_after(seconds: float | None) -> float | None:
    """Returns time.monotonic() in this many seconds."""
    return None if seconds is None else time.monotonic() + seconds
