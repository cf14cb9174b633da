"""Which waiting rows form the next batch. Pure bookkeeping: no threads, no clock, no tensors."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import inf

from bertscope_service.engine.backlog import Backlog
from bertscope_service.engine.lane import Lane
from bertscope_service.engine.pace import NOMINAL_TOKEN_SECONDS
from bertscope_service.engine.rows import Job, Priority, Row

LOOKAHEAD_ROWS = 2048
LOOKAHEAD_BATCHES = {Priority.INTERACTIVE: 2, Priority.BULK: 4}
"""So many waiting rows, or as many as fill so many batches, are considered for one, of each client an equal part. More would
sort them better, but rows pass others that wait for company of their length, and a job ends with the last of its rows."""

PATIENCE_SECONDS = 0.8
"""Bulk rows are passed over for so long at most, then one batch of them goes: a sixteenth of the device stays theirs."""

PADDING_SHARE = 0.08
"""A row joins a batch while padding stays below this share of it,"""

PADDING_SLACK = 16
"""or below so many tokens, which cost less than a batch of their own."""


@dataclass(slots=True)
class Taken:
    """A batch, and the rows found abandoned on the way to it, with the reason."""

    rows: list[Row] = field(default_factory=list)
    dropped: list[tuple[Row, str]] = field(default_factory=list)


class RowQueue:
    """Waiting rows, in one line per priority and client.

    The seed of a batch is the oldest row of the client that was served for the shortest time, so clients share a device's time
    evenly and no row starves; then rows of any client that may share its batch and are about as long are added. `charge` says
    how many seconds a token of rows like a given one costs.
    """

    def __init__(self, charge: Callable[[Row], float] = lambda _: NOMINAL_TOKEN_SECONDS) -> None:
        self.backlog = Backlog()
        self._charge = charge
        self._lanes = {priority: Lane() for priority in Priority}
        self._passed_over = 0.0

    @property
    def rows(self) -> int:
        """How many wait."""
        return self.backlog.total.rows

    @property
    def tokens(self) -> int:
        """How many tokens wait."""
        return self.backlog.total.tokens

    @property
    def jobs(self) -> set[Job]:
        """Those that wait, one for each caller."""
        return {row.job for lane in self._lanes.values() for row in lane}

    def push(self, job: Job) -> None:
        """Let the rows of a job wait; whether they may is the caller's business."""
        self._lanes[job.priority].push(job.client, job.rows)
        self.backlog.push(job)

    def remove(self, job: Job) -> int:
        """Forget the waiting rows of a job; how many there were."""
        gone = [row for row in job.rows if not row.taken]
        self._forget(gone)
        return len(gone)

    def clear(self) -> list[Row]:
        """Forget all rows; they are returned."""
        rows = [row for lane in self._lanes.values() for row in lane]
        self._forget(rows)
        return rows

    def take(self, budget_tokens: int, now: float, bulk_tokens: Callable[[Row], int] | None = None) -> Taken:
        """Remove the next batch: at most `budget_tokens` with padding, but at least one row if any waits.

        `now` is a time.monotonic(). `bulk_tokens` may name a smaller budget for bulk rows like a given one.
        """
        taken = Taken()
        patient = self._passed_over < PATIENCE_SECONDS
        for priority in sorted(Priority, reverse=not patient):
            candidates = self._candidates(priority, budget_tokens, now, taken)
            if candidates:
                budget = budget_tokens
                if priority is Priority.BULK and bulk_tokens is not None:
                    budget = min(budget, bulk_tokens(candidates[0]))
                taken.rows = _grow(candidates, budget)
                self._serve(taken.rows)
                break
        self._forget([*taken.rows, *(row for row, _ in taken.dropped)])
        return taken

    def _candidates(self, priority: Priority, budget_tokens: int, now: float, taken: Taken) -> list[Row]:
        """Rows that may share the next batch, its seed first; abandoned ones go to `taken.dropped`.

        Clients who are a batch ahead of the seed's don't ride along: they would get most of a batch at each of its turns.
        """
        lane = self._lanes[priority]
        rows: list[Row] = []
        window = LOOKAHEAD_BATCHES[priority] * budget_tokens / max(1, len(lane))
        seen, reach = 0, inf
        for served, line in lane.turns():
            if served > reach:
                break
            tokens = 0
            for row in line:
                if rows and tokens >= window:
                    break
                if rows and seen >= LOOKAHEAD_ROWS:
                    return rows
                seen += 1
                reason = row.job.abandoned(now + self._ahead(row, budget_tokens))
                if reason is not None:
                    taken.dropped.append((row, reason))
                elif not rows or row.kind == rows[0].kind:
                    if not rows:
                        reach = served + budget_tokens * self._charge(row)
                    rows.append(row)
                    tokens += len(row.sequence)
        return rows

    def _ahead(self, row: Row, budget_tokens: int) -> float:
        """Seconds that a batch with this row is expected to take, if others want the device: who can't be answered in time any
        more must not take it from those who can."""
        job = row.job
        if job.deadline is None:
            return 0.0
        waiting = self.backlog.up_to(job.priority).tokens
        return min(waiting, budget_tokens) * self._charge(row) if waiting > job.tokens else 0.0

    def _serve(self, rows: Sequence[Row]) -> None:
        """Charge a batch to the clients whose rows are in it."""
        priority, token_seconds = rows[0].job.priority, self._charge(rows[0])
        seconds: defaultdict[str, float] = defaultdict(float)
        for row in rows:
            seconds[row.job.client] += len(row.sequence) * token_seconds
        self._lanes[priority].charge(seconds)
        waits = priority < Priority.BULK and self._lanes[Priority.BULK]
        self._passed_over = self._passed_over + sum(seconds.values()) if waits else 0.0

    def _forget(self, rows: Iterable[Row]) -> None:
        gone: dict[Priority, Counter[str]] = {priority: Counter() for priority in Priority}
        for row in rows:
            if not row.taken:
                row.taken = True
                self.backlog.pop(row)
                gone[row.job.priority][row.job.client] += 1
        for priority, counts in gone.items():
            self._lanes[priority].forget(counts)


def _grow(candidates: list[Row], budget_tokens: int) -> list[Row]:
    """The seed, candidates[0], with its neighbours in length, as long as little is padded; sorted by length."""
    seed = candidates[0]
    rows = sorted(candidates, key=lambda row: len(row.sequence))
    lengths = [len(row.sequence) for row in rows]
    low = high = rows.index(seed)
    real = lengths[low]

    def padding(first: int, last: int, total: int) -> int | None:
        """Padding tokens of rows[first..last] with `total` real ones; None if they may not share a batch."""
        if first < 0 or last >= len(rows):
            return None
        size = lengths[last] * (last - first + 1)
        waste = size - total
        fits = size <= budget_tokens and waste <= max(PADDING_SHARE * size, PADDING_SLACK)
        return waste if fits else None

    while True:
        shorter = padding(low - 1, high, real + lengths[low - 1])
        longer = padding(low, high + 1, real + lengths[min(high + 1, len(rows) - 1)])
        if shorter is None and longer is None:
            return rows[low : high + 1]
        if longer is None or (shorter is not None and shorter <= longer):
            low -= 1
            real += lengths[low]
        else:
            high += 1
            real += lengths[high]
