"""One thread per device runs the batches of all models on it.

Two models on the same cores or the same GPU would only fight, so there is never more than one batch at work; on a GPU a second
one is launched while the first is still running, so that the device does not wait for the host.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from bertscope_service.engine.admission import Admission
from bertscope_service.engine.flight import Flight
from bertscope_service.engine.lease import Call, Lease, stopping
from bertscope_service.engine.pace import Pace
from bertscope_service.engine.queue import RowQueue
from bertscope_service.engine.rows import Job, Row, tell
from bertscope_service.engine.runs import Runner, broken
from bertscope_service.errors import DeadlineExceeded, Overloaded, ServiceError
from bertscope_service.metrics import Metrics

DEADLINE_SLACK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a device takes: tokens in a batch (padding included), tokens waiting, seconds a job may wait for others, CPU
    threads (0: one per physical core)."""

    batch_tokens: int
    queue_tokens: int
    queue_seconds: float = 10.0
    threads: int = 0


class Worker:
    """The queue of a device and the thread that empties it. All but the underscored methods may be called from any thread.

    `on_broken` is called on that thread, once, if the device has failed for good.
    """

    def __init__(
        self, device: torch.device, limits: Limits, metrics: Metrics, on_broken: Callable[[torch.device], None]
    ) -> None:
        self.device = device
        self._limits = limits
        self._metrics = metrics
        self._name = str(device)
        self._on_broken = on_broken
        self._pace = Pace()
        self._queue = RowQueue(self._pace.charge)
        self._admission = Admission(self._name, limits.queue_tokens, limits.queue_seconds, limits.batch_tokens)
        self._ready = threading.Condition()
        self._ended: Callable[[], ServiceError] | None = None
        self._lease: Lease | None = None
        self._calls: deque[Call] = deque()
        self._runner = Runner(device, metrics, self._measured)
        self._watch_queue()
        self._thread = threading.Thread(target=self._work, name=f"bertscope-{device}", daemon=True)
        self._thread.start()

    def submit(self, job: Job, *, admitted: bool = False) -> None:
        """Let a job wait. `admitted`: it continues one that was let in before, and is not turned away.

        Raises Overloaded if there is no room, if its deadline is out of reach, or if the device is lent to somebody who wants
        that; Unavailable after close(), or if the device has failed.
        """
        with self._ready:
            if self._ended is not None:
                raise self._ended()
            lease = self._lease
            job.token_seconds = self._pace.expect(job.rows[0])
            if not admitted:
                self._admit(job, lease)
            if lease is not None:
                lease.waited += 1
            self._queue.push(job)
            self._ready.notify()

    def crowded(self, client: str, remaining: float | None) -> Overloaded | None:
        """Why interactive jobs of a client, with so many seconds to their deadline, are turned away now; None if one might be
        let in."""
        with self._ready:
            return self._admission.refuse_unheard(self._queue.backlog, client, remaining)

    def discard(self, job: Job) -> None:
        """Forget the rows of a job that nobody waits for; those in a running batch finish unheard."""
        with self._ready:
            # gRPC cancels a call whose deadline has passed, and may be a moment early.
            reason = job.abandoned(time.monotonic() + DEADLINE_SLACK_SECONDS) or "cancelled"
            job.cancelled = True
            gone = self._queue.remove(job)
        self._metrics.rows_dropped.labels(reason).inc(gone)

    def expire(self, job: Job) -> None:
        """Fail a job whose deadline has passed, if any of its rows still waits: the thread may be busy for long."""
        with self._ready:
            waiting = self._queue.remove(job)
        self._metrics.rows_dropped.labels("deadline").inc(waiting)
        if waiting:
            tell(job, _late())

    @property
    def patience_seconds(self) -> float:
        """When to give up a job."""
        return self._admission.patience_seconds

    def give_up(self, job: Job) -> None:
        """Turn a job away after all if none of its rows has begun, unless it waits for the end of a lease."""
        with self._ready:
            if self._lease is not None or any(row.taken for row in job.rows):
                return
            waiting = self._queue.remove(job)
            refusal = self._refused(self._admission.give_up(self._queue.backlog))
        self._metrics.rows_dropped.labels("overload").inc(waiting)
        tell(job, refusal)

    def lend(self, lease: Lease) -> None:
        """After the batch at work, run nothing but the calls of a lease. Raises Unavailable after the thread's end."""
        with self._ready:
            if self._ended is not None:
                raise self._ended()
            self._lease = lease
            lease.waited = len(self._queue.jobs)

    def take_back(self) -> set[Job]:
        """Go on with the rows, those of the jobs returned; calls of the lease that have not begun never do."""
        with self._ready:
            self._lease = None
            while self._calls:
                self._calls.popleft().future.cancel()
            self._ready.notify()
            return self._queue.jobs

    def enqueue(self, call: Call) -> None:
        """Run a call of the lease. Raises Unavailable after close()."""
        with self._ready:
            if self._ended is not None:
                raise self._ended()
            self._calls.append(call)
            self._ready.notify()

    def close(self) -> None:
        """Fail what waits, finish the batch or call at work, end the thread."""
        self._end(stopping)
        self._thread.join()

    def _admit(self, job: Job, lease: Lease | None) -> None:
        if lease is not None and lease.refuse:
            lease.refused += 1
            message = f"{self._name} is being measured and lets nobody in for about {lease.retry_after:.2g} s; try again then"
            raise self._refused(Overloaded(message, "DEVICE_BUSY", lease.retry_after, device=self._name))
        refusal = self._admission.refuse(self._queue.backlog, job, time.monotonic())
        if refusal is not None:
            if lease is not None:
                refusal.retry_after = max(refusal.retry_after, lease.retry_after)
            raise self._refused(refusal)

    def _refused(self, refusal: Overloaded) -> Overloaded:
        self._metrics.rejected.labels(refusal.reason.lower()).inc()
        return refusal

    def _end(self, why: Callable[[], ServiceError]) -> None:
        """Let nobody in any more, and fail what waits."""
        with self._ready:
            self._ended = self._ended or why
            waiting = {row.job for row in self._queue.clear()}
            calls = list(self._calls)
            self._calls.clear()
            self._ready.notify()
        for job in waiting:
            tell(job, why())
        for call in calls:
            call.refuse(why())

    def _watch_queue(self) -> None:
        """Metrics read the queue when they are asked: setting them would cost every call a microsecond or two."""
        queue = self._queue
        self._metrics.queue_rows.labels(self._name).set_function(lambda: queue.rows)
        self._metrics.queue_tokens.labels(self._name).set_function(lambda: queue.tokens)
        self._metrics.queue_seconds.labels(self._name).set_function(lambda: queue.backlog.total.seconds)
        self._metrics.queue_limit_tokens.labels(self._name).set(self._limits.queue_tokens)
        self._metrics.device_broken.labels(self._name).set(0)
        self._metrics.device_lent.labels(self._name).set_function(lambda: self._lease is not None)

    def _work(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)  # events and pinned memory belong to the current device
        elif self._limits.threads:
            torch.set_num_threads(self._limits.threads)
        flying: Flight | None = None
        while True:
            rows = self._next(wait=flying is None)
            if rows is None:
                return
            if isinstance(rows, Call):
                rows.run()
                del rows
                continue
            flight = self._runner.launch(rows) if rows else None
            if flying is not None:
                self._runner.land(flying)
            flying = flight
            if flying is not None and flying.landed is None:
                self._runner.land(flying)
                flying = None
            if self._runner.broken:
                self._break()
            # While this thread waits, its variables must not keep an unloaded model alive.
            del rows, flight

    def _break(self) -> None:
        """Say that the device has failed; from now on everybody hears it."""
        if self._ended is None:
            self._metrics.device_broken.labels(self._name).set(1)
            self._end(lambda: broken(self.device))
            self._on_broken(self.device)

    def _next(self, *, wait: bool) -> list[Row] | Call | None:
        """The next batch; [] if none is ready and `wait` is false; None when ended and idle.

        While the device is lent, the next call instead, but none before the last batch has landed: that is, if `wait` is true.
        """
        with self._ready:
            while True:
                if self._calls and wait:
                    return self._calls.popleft()
                rows = [] if self._lease is not None else self._take()
                if rows or not wait:
                    return rows
                if self._ended is not None:
                    return None
                del rows
                self._ready.wait()

    def _take(self) -> list[Row]:
        """The next batch from the queue; tells the jobs of rows that were dropped on the way."""
        taken = self._queue.take(self._limits.batch_tokens, time.monotonic(), self._pace.bulk_tokens)
        for row, reason in taken.dropped:
            self._metrics.rows_dropped.labels(reason).inc()
            tell(row.job, _late())
        return taken.rows

    def _measured(self, rows: Sequence[Row], seconds: float) -> None:
        """Learn from a batch how fast such rows are."""
        tokens, row = sum(len(row.sequence) for row in rows), rows[0]
        with self._ready:
            rate, busy = tokens / max(seconds, 1e-9), bool(self._queue.rows)
            self._pace.note(row.encoder, row.job.priority, row.kind, rate, busy=busy)


def _late() -> DeadlineExceeded:
    return DeadlineExceeded("the request waited so long that its deadline can't be met; give it more time", "DEADLINE_IN_QUEUE")
