"""Chooses the waiting rows of the next batch. Pure bookkeeping: no threads, no clock, no tensors."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from operator import attrgetter
from typing import Protocol

from bertscope_service.engine.backlog import Backlog
from bertscope_service.engine.fair_queue import FairQueue
from bertscope_service.engine.rate_estimate import BATCH_SECONDS, NOMINAL_TOKEN_SECONDS
from bertscope_service.engine.rows import Job, Priority, Row, by_job, tokens_of

PRIORITIES = tuple(Priority)

LOOKAHEAD_ROWS = 2048
LOOKAHEAD_BATCHES = {Priority.INTERACTIVE: 2, Priority.BULK: 4}
"""At most this many waiting rows, or this many batches of them, are considered for a batch, an equal part of each client. More
would sort them better, but rows overtake others that wait for rows of their length, and a job ends with its last row."""

PATIENCE_SECONDS = 0.8
"""Bulk rows are passed over for at most this long, then they run for as long as one of their batches should take: they keep a
sixteenth of the device, also in a training's steps, each a short batch of its own."""

PADDING_SHARE = 0.08
"""A row joins a batch while padding stays below this share of it, or below PADDING_SLACK tokens."""

PADDING_SLACK = 16
"""So little padding costs less than another batch."""

START_SECONDS = 4e-4
"""The host's part of a batch on a CPU: to form it, place its rows and deal its results. Padding that the device computes in
that time costs no more than another batch."""

MOST_PLACES = 4
"""Rows that run without padding may have this many times the budget as places of padded rows: embeddings use these."""


@dataclass(frozen=True, slots=True)
class BatchSize:
    """The sizes that a padded batch may have.

    budget: the most tokens, padding included. saturation: a batch of so many tokens takes no longer than a smaller one, so that
    padding costs nothing. slack: tokens of padding that cost less than another batch.
    """

    budget: int
    saturation: int = 0
    slack: int = PADDING_SLACK

    def padding(self, rows: int, longest: int, real: int) -> int | None:
        """Returns the padding of a batch with `real` tokens, or None if it may not be so large, or have so much of it."""
        places = rows * longest
        padding = places - real
        if places > self.budget:
            return None
        return padding if places <= self.saturation or padding <= max(PADDING_SHARE * places, self.slack) else None


class BatchTokens(Protocol):
    """Returns the most tokens of a batch of rows like a given one; `halved`: in half the time."""

    def __call__(self, row: Row, *, halved: bool) -> int: ...


@dataclass(slots=True)
class Taken:
    """A batch, and the abandoned rows found while forming it, with the reason."""

    rows: list[Row] = field(default_factory=list)
    dropped: list[tuple[Row, str]] = field(default_factory=list)


class RowQueue:
    """Waiting rows, in one fair queue per priority.

    A batch begins with the oldest row of the client that was served for the shortest time, so clients share a device's time
    evenly and no row starves; then rows of any client that may share its batch are added: those of similar lengths, or where
    nothing is padded, those that come next. `charge`
    returns the seconds that a token of rows like a given one costs, `saturation` the tokens of a batch of them below which
    padding costs nothing.
    """

    def __init__(
        self,
        charge: Callable[[Row], float] = lambda _: NOMINAL_TOKEN_SECONDS,
        saturation: Callable[[Row], int] = lambda _: 0,
    ) -> None:
        self.backlog = Backlog()
        self._charge = charge
        self._saturation = saturation
        self._queues = {priority: FairQueue() for priority in Priority}
        self._passed_over = 0.0
        self._turn = 0.0
        """The seconds that bulk rows still have before interactive ones."""

    @property
    def rows(self) -> int:
        """The number of waiting rows."""
        return self.backlog.total.rows

    @property
    def tokens(self) -> int:
        """The number of waiting tokens."""
        return self.backlog.total.tokens

    @property
    def jobs(self) -> set[Job]:
        """The waiting jobs."""
        return {row.job for queue in self._queues.values() for row in queue}

    def push(self, job: Job) -> None:
        """Adds the rows of a job; the caller decides whether they may wait."""
        self._queues[job.priority].push(job.client, job.rows)
        self.backlog.push(job)

    def remove(self, job: Job) -> int:
        """Removes the waiting rows of a job and returns their number."""
        gone = [row for row in job.rows if not row.taken]
        self._forget(gone)
        return len(gone)

    def clear(self) -> list[Row]:
        """Removes and returns all rows."""
        rows = [row for queue in self._queues.values() for row in queue]
        self._forget(rows)
        return rows

    def take(self, budget_tokens: int, now: float, batch_tokens: BatchTokens | None = None) -> Taken:
        """Removes the next batch: at most `budget_tokens` with padding, but at least one row if any waits.

        `now` is a time.monotonic(). `batch_tokens` may return a smaller budget for rows like a given one, and half of it for
        a bulk batch after an interactive one, whose caller may call again at once, and waits for this batch.
        """
        taken = Taken()
        if not self.rows:
            return taken
        if self._passed_over >= PATIENCE_SECONDS:
            self._passed_over, self._turn = 0.0, BATCH_SECONDS[Priority.BULK]
        patient = not self._turn
        for priority in PRIORITIES if patient else reversed(PRIORITIES):
            candidates = self._candidates(priority, budget_tokens, now, taken)
            if candidates:
                budget = budget_tokens
                first = candidates[0]
                if batch_tokens is not None:
                    halved = patient and priority is Priority.BULK and self._passed_over > 0
                    budget = min(budget, batch_tokens(first, halved=halved))
                if first.alone:
                    taken.rows = candidates[:1]
                elif first.unpadded:
                    taken.rows = _fill(candidates, budget)
                else:
                    token_seconds = self._charge(first)
                    slack = max(PADDING_SLACK, int(START_SECONDS / token_seconds) if token_seconds else 0)
                    taken.rows = _grow(candidates, BatchSize(budget, self._saturation(first), slack))
                self._serve(taken.rows)
                break
        self._forget([*taken.rows, *(row for row, _ in taken.dropped)])
        return taken

    def _candidates(self, priority: Priority, budget_tokens: int, now: float, taken: Taken) -> list[Row]:
        """Returns rows that may share the next batch, its first row first; abandoned ones go to `taken.dropped`.

        Clients that are a batch ahead of the first row's client are left out: they would get most of a batch at each of its
        turns.
        """
        queue = self._queues[priority]
        rows: list[Row] = []
        window = LOOKAHEAD_BATCHES[priority] * budget_tokens / max(1, len(queue))
        seen, reach = 0, inf
        like: Row | None = None
        reason: str | None = None
        for served, waiting in queue.turns():
            if served > reach:
                break
            tokens = 0
            for row in waiting:
                if rows and (tokens >= window or rows[0].alone):
                    break
                if rows and seen >= LOOKAHEAD_ROWS:
                    return rows
                seen += 1
                if like is None or row.job is not like.job or row.kind is not like.kind:
                    like, reason = row, row.job.abandoned(now + self._ahead(row, budget_tokens))
                if reason is not None:
                    taken.dropped.append((row, reason))
                elif not rows or row.kind == rows[0].kind:
                    if not rows:
                        reach = served + budget_tokens * self._charge(row)
                    rows.append(row)
                    tokens += row.length
        return rows

    def _ahead(self, row: Row, budget_tokens: int) -> float:
        """Returns the seconds that a batch with this row is expected to take, if others want the device: rows that can't be
        answered in time any more must not take it from those that can."""
        job = row.job
        if job.deadline is None:
            return 0.0
        waiting = self.backlog.up_to(job.priority).tokens
        return min(waiting, budget_tokens) * self._charge(row) if waiting > job.tokens else 0.0

    def _serve(self, rows: Sequence[Row]) -> None:
        """Charges a batch to the clients whose rows are in it."""
        first = rows[0]
        priority, token_seconds = first.job.priority, self._charge(first)
        first.token_seconds = token_seconds
        seconds: defaultdict[str, float] = defaultdict(float)
        for job, own in by_job(rows).items():
            seconds[job.client] += tokens_of(own) * token_seconds
        self._queues[priority].charge(seconds)
        spent = sum(seconds.values())
        if priority is Priority.BULK:
            left = self._turn - spent
            # Not for another batch that would take longer than that: interactive rows wait for it.
            self._passed_over, self._turn = 0.0, left if left >= spent else 0.0
        else:
            self._passed_over = self._passed_over + spent if self._queues[Priority.BULK] else 0.0

    def settle(self, rows: Sequence[Row], seconds: float) -> None:
        """Charges the clients of a batch for the `seconds` that it really took, each for its share of the tokens.

        Parts of a batch that failed are charged as they were when it was taken.
        """
        estimated, tokens = rows[0].token_seconds, tokens_of(rows)
        if not estimated:
            return
        rows[0].token_seconds = 0.0
        wrong: defaultdict[str, float] = defaultdict(float)
        for job, own in by_job(rows).items():
            wrong[job.client] += tokens_of(own) * (seconds / tokens - estimated)
        priority = rows[0].job.priority
        self._queues[priority].correct(wrong)
        if priority < Priority.BULK and self._passed_over:
            self._passed_over = max(0.0, self._passed_over + sum(wrong.values()))

    def _forget(self, rows: Iterable[Row]) -> None:
        gone: defaultdict[Priority, Counter[str]] = defaultdict(Counter)
        for job, waiting in by_job(row for row in rows if not row.taken).items():
            for row in waiting:
                row.taken = True
            self.backlog.pop(job, waiting)
            gone[job.priority][job.client] += len(waiting)
        for priority, counts in gone.items():
            self._queues[priority].forget(counts)


def _fill(candidates: list[Row], budget: int) -> list[Row]:
    """Returns the first row and those that come next, as many as a batch without padding may have; one that finds no room
    begins a later batch.

    So a call takes as many batches as its tokens need, whatever the lengths of its texts, and the next calls use what it leaves
    of its last one: they would have to wait for that batch anyway.
    """
    rows, real, longest = [candidates[0]], candidates[0].length, candidates[0].length
    for row in candidates[1:]:
        places = (len(rows) + 1) * max(longest, row.length)
        if real + row.length <= budget and places <= MOST_PLACES * budget:
            rows.append(row)
            real += row.length
            longest = max(longest, row.length)
    return rows


def _grow(candidates: list[Row], size: BatchSize) -> list[Row]:
    """Returns the first row, candidates[0], with neighbours in length, as many as a batch may have; sorted by length."""
    seed = candidates[0]
    rows = sorted(candidates, key=attrgetter("length"))
    lengths = [row.length for row in rows]
    low = high = rows.index(seed)
    real = lengths[low]
    while True:
        count = high - low + 2
        # The padding of the batch with one more row, at the side of the shorter rows or of the longer ones.
        shorter = longer = None
        if low > 0:
            shorter = size.padding(count, lengths[high], real + lengths[low - 1])
        if high + 1 < len(rows):
            longer = size.padding(count, lengths[high + 1], real + lengths[high + 1])
        if shorter is None and longer is None:
            return rows[low : high + 1]
        if longer is None or (shorter is not None and shorter <= longer):
            low -= 1
            real += lengths[low]
        else:
            high += 1
            real += lengths[high]
