"""Which waiting rows form the next batch. Pure bookkeeping: no threads, no clock, no tensors."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from bertscope_service.engine.rows import Job, Priority, Row

LOOKAHEAD_ROWS = 2048
"""So many waiting rows are considered for a batch; more would only sort them better."""

REMEMBERED_CLIENTS = 1024
"""How much so many clients were served is remembered while others wait."""

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

    The seed of a batch is the oldest row of the client that was served least, so clients share evenly and no row starves; then
    rows of any client that may share its batch and are about as long are added.
    """

    def __init__(self, limit_tokens: int) -> None:
        self.limit_tokens = limit_tokens
        self.tokens = 0
        self.rows = 0
        self._lanes: dict[Priority, dict[str, deque[Row]]] = {priority: {} for priority in Priority}
        self._served: dict[str, float] = {}

    @property
    def jobs(self) -> set[Job]:
        """Those that wait, one for each caller."""
        return {row.job for lane in self._lanes.values() for line in lane.values() for row in line if not row.taken}

    def has_room(self, tokens: int) -> bool:
        """Whether a job of so many tokens may wait. An empty queue takes any."""
        return not self.rows or self.tokens + tokens <= self.limit_tokens

    def push(self, job: Job) -> None:
        """Let the rows of a job wait; has_room is the caller's business."""
        lane = self._lanes[job.priority]
        if job.client not in lane:
            # A client that was idle starts level with the least served one: idling earns no credit.
            waiting = [self._served.get(client, 0.0) for clients in self._lanes.values() for client in clients]
            self._served[job.client] = max(self._served.get(job.client, 0.0), min(waiting, default=0.0))
        lane.setdefault(job.client, deque()).extend(job.rows)
        self.rows += len(job.rows)
        self.tokens += job.tokens

    def remove(self, job: Job) -> int:
        """Forget the waiting rows of a job; how many there were."""
        gone = [row for row in job.rows if not row.taken]
        self._forget(gone)
        self._sweep(job.priority, {job.client})
        return len(gone)

    def clear(self) -> list[Row]:
        """Forget all rows; they are returned."""
        rows = [row for lane in self._lanes.values() for line in lane.values() for row in line if not row.taken]
        self._forget(rows)
        self._lanes = {priority: {} for priority in Priority}
        return rows

    def take(self, budget_tokens: int, now: float, bulk_tokens: Callable[[Row], int] | None = None) -> Taken:
        """Remove the next batch: at most `budget_tokens` with padding, but at least one row if any waits.

        `now` is a time.monotonic(). `bulk_tokens` may name a smaller budget for bulk rows like a given one.
        """
        taken = Taken()
        for priority, lane in self._lanes.items():
            candidates = self._waiting(lane, taken, now)
            if candidates:
                budget = budget_tokens
                if priority is Priority.BULK and bulk_tokens is not None:
                    budget = min(budget, bulk_tokens(candidates[0]))
                taken.rows = _grow(candidates, budget)
            self._forget([*taken.rows, *(row for row, _ in taken.dropped)])
            for row in taken.rows:
                self._served[row.job.client] = self._served.get(row.job.client, 0.0) + len(row.sequence)
            self._sweep(priority, {row.job.client for row in taken.rows} | {row.job.client for row, _ in taken.dropped})
            if taken.rows:
                break
        return taken

    def _waiting(self, lane: dict[str, deque[Row]], taken: Taken, now: float) -> list[Row]:
        """Rows that may share the next batch, its seed first; abandoned ones go to `taken.dropped`."""
        rows: list[Row] = []
        seen = 0
        for client in sorted(lane, key=lambda client: self._served.get(client, 0.0)):
            for row in lane[client]:
                if seen >= LOOKAHEAD_ROWS and rows:
                    return rows
                seen += 1
                reason = row.job.abandoned(now)
                if reason is not None:
                    taken.dropped.append((row, reason))
                elif not rows or row.key == rows[0].key:
                    rows.append(row)
        return rows

    def _forget(self, rows: Iterable[Row]) -> None:
        for row in rows:
            if not row.taken:
                row.taken = True
                self.rows -= 1
                self.tokens -= len(row.sequence)

    def _sweep(self, priority: Priority, clients: Iterable[str]) -> None:
        """Remove taken rows from the lines of some clients, and lines that are empty."""
        lane = self._lanes[priority]
        for client in clients:
            line = deque(row for row in lane.pop(client, ()) if not row.taken)
            if line:
                lane[client] = line
        if not self.rows or len(self._served) > REMEMBERED_CLIENTS:
            # Clients come and go; who does not wait now starts level when it comes back.
            waiting = {client for lane in self._lanes.values() for client in lane}
            self._served = {client: tokens for client, tokens in self._served.items() if client in waiting}


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
