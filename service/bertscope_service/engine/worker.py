"""One thread per device runs the batches of all models on it.

Two models on the same cores or the same GPU would only fight, so there is never more than one batch at work; on a GPU a second
one is launched while the first is still running, so that the device does not wait for the host.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from bertscope_service.engine.flight import Flight, launch, out_of_memory
from bertscope_service.engine.lease import Call, Lease, stopping
from bertscope_service.engine.pace import BulkPace
from bertscope_service.engine.queue import RowQueue
from bertscope_service.engine.rows import Job, Priority, Row
from bertscope_service.errors import DeadlineExceeded, Overloaded
from bertscope_service.metrics import Metrics

DEADLINE_SLACK_SECONDS = 0.05

T = TypeVar("T")
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a device takes: tokens in a batch (padding included), tokens waiting, CPU threads (0: one per physical core)."""

    batch_tokens: int
    queue_tokens: int
    threads: int = 0


class Worker:
    """The queue of a device and the thread that empties it. All but the underscored methods may be called from any thread."""

    def __init__(self, device: torch.device, limits: Limits, metrics: Metrics) -> None:
        self.device = device
        self._limits = limits
        self._metrics = metrics
        self._name = str(device)
        self._queue = RowQueue(limits.queue_tokens)
        self._ready = threading.Condition()
        self._closed = False
        self._lease: Lease | None = None
        self._calls: deque[Call] = deque()
        self._tokens_per_second = 0.0
        self._pace = BulkPace()
        self._landed = 0.0
        metrics.queue_limit_tokens.labels(self._name).set(limits.queue_tokens)
        self._thread = threading.Thread(target=self._work, name=f"bertscope-{device}", daemon=True)
        self._thread.start()

    def submit(self, job: Job, *, admitted: bool = False) -> None:
        """Let a job wait. `admitted`: it continues one that was let in before, and is not turned away.

        Raises Overloaded if there is no room or the device is lent to somebody who wants that, Unavailable after close().
        """
        with self._ready:
            if self._closed:
                raise stopping()
            lease = self._lease
            if lease is not None and lease.refuse and not admitted:
                lease.refused += 1
                self._metrics.rejected.labels("device_busy").inc()
                raise self._lent(lease)
            if not admitted and not self._queue.has_room(job.tokens):
                self._metrics.rejected.labels("queue_full").inc()
                raise self._overloaded(job.tokens)
            if lease is not None:
                lease.waited += 1
            self._queue.push(job)
            self._report_queue()
            self._ready.notify()

    def discard(self, job: Job) -> None:
        """Forget the rows of a job that nobody waits for; those in a running batch finish unheard."""
        with self._ready:
            # gRPC cancels a call whose deadline has passed, and may be a moment early.
            reason = job.abandoned(time.monotonic() + DEADLINE_SLACK_SECONDS) or "cancelled"
            job.cancelled = True
            self._metrics.rows_dropped.labels(reason).inc(self._queue.remove(job))
            self._report_queue()

    def expire(self, job: Job) -> None:
        """Fail a job whose deadline has passed, if any of its rows still waits: the thread may be busy for long."""
        with self._ready:
            waiting = self._queue.remove(job)
            self._metrics.rows_dropped.labels("deadline").inc(waiting)
            self._report_queue()
        if waiting:
            _tell(job, job.fail, _late())

    def lend(self, lease: Lease) -> None:
        """After the batch at work, run nothing but the calls of a lease. Raises Unavailable after close()."""
        with self._ready:
            if self._closed:
                raise stopping()
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
            if self._closed:
                raise stopping()
            self._calls.append(call)
            self._ready.notify()

    def close(self) -> None:
        """Fail what waits, finish the batch or call at work, end the thread."""
        with self._ready:
            self._closed = True
            waiting = {row.job for row in self._queue.clear()}
            calls = list(self._calls)
            self._calls.clear()
            self._report_queue()
            self._ready.notify()
        for job in waiting:
            _tell(job, job.fail, stopping())
        for call in calls:
            call.refuse()
        self._thread.join()

    def _lent(self, lease: Lease) -> Overloaded:
        message = f"{self._name} is being measured and lets nobody in for about {lease.retry_after:.2g} s; try again then"
        return Overloaded(message, "DEVICE_BUSY", lease.retry_after, device=self._name)

    def _overloaded(self, tokens: int) -> Overloaded:
        wait = self._queue.tokens / self._tokens_per_second if self._tokens_per_second else 1.0
        wait = min(30.0, max(0.05, wait))
        if self._lease is not None:
            wait = max(wait, self._lease.retry_after)
        message = (
            f"{self._queue.tokens} tokens wait on {self._name} and the queue takes {self._queue.limit_tokens}; try again later"
        )
        return Overloaded(message, "QUEUE_FULL", wait, device=self._name, tokens=tokens)

    def _report_queue(self) -> None:
        self._metrics.queue_rows.labels(self._name).set(self._queue.rows)
        self._metrics.queue_tokens.labels(self._name).set(self._queue.tokens)

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
            flight = self._launch(rows) if rows else None
            if flying is not None:
                self._land(flying)
            flying = flight
            if flying is not None and flying.landed is None:
                self._land(flying)
                flying = None
            # While this thread waits, its variables must not keep an unloaded model alive.
            del rows, flight

    def _next(self, *, wait: bool) -> list[Row] | Call | None:
        """The next batch; [] if none is ready and `wait` is false; None when closed and idle.

        While the device is lent, the next call instead, but none before the last batch has landed: that is, if `wait` is true.
        """
        with self._ready:
            while True:
                if self._calls and wait:
                    return self._calls.popleft()
                rows = [] if self._lease is not None else self._take()
                if rows or not wait:
                    return rows
                if self._closed:
                    return None
                del rows
                self._ready.wait()

    def _take(self) -> list[Row]:
        """The next batch from the queue; tells the jobs of rows that were dropped on the way."""
        taken = self._queue.take(self._limits.batch_tokens, time.monotonic(), self._pace.tokens)
        for row, reason in taken.dropped:
            self._metrics.rows_dropped.labels(reason).inc()
            _tell(row.job, row.job.fail, _late())
        self._report_queue()
        return taken.rows

    def _launch(self, rows: Sequence[Row]) -> Flight | None:
        """Start a batch; None if it failed and its jobs were told."""
        began = time.perf_counter()
        try:
            with torch.inference_mode():
                return launch(rows, self.device, began)
        except Exception as error:  # whatever went wrong must not end the thread that all callers depend on
            if not out_of_memory(error):
                logger.exception("a batch of %d rows failed on %s", len(rows), self._name)
                self._fail(rows, error)
                return None
        # The halves run out here: in there, the error's traceback would keep the tensors of this batch alive.
        self._halve(rows)
        return None

    def _measure(self, flight: Flight) -> None:
        """Count a batch that landed. On a GPU it may have been launched while the one before still ran."""
        now = time.perf_counter()
        seconds = now - max(flight.began, self._landed)
        self._landed = now
        lengths = [len(row.sequence) for row in flight.rows]
        real = sum(lengths)
        counts = self._metrics.batch_tokens
        counts.labels(self._name, "real").inc(real)
        counts.labels(self._name, "padding").inc(len(lengths) * max(lengths) - real)
        self._metrics.batch_rows.labels(self._name).observe(len(lengths))
        self._metrics.batch_seconds.labels(self._name).observe(seconds)
        self._tokens_per_second += 0.2 * (real / seconds - self._tokens_per_second)
        if flight.rows[0].job.priority is Priority.BULK:
            self._pace.note(flight.rows[0].encoder, flight.kind, real / seconds)

    def _land(self, flight: Flight) -> None:
        """Wait for a batch's results and hand them to their jobs."""
        try:
            results = flight.results()
        except Exception as error:  # as in _launch: asynchronous device errors surface here
            logger.exception("a batch of %d rows failed on %s", len(flight.rows), self._name)
            self._fail(flight.rows, error)
            return
        self._measure(flight)
        dealt: dict[Job, list[tuple[int, Any]]] = defaultdict(list)
        for row, result in zip(flight.rows, results, strict=True):
            dealt[row.job].append((row.index, result))
        for job, part in dealt.items():
            _tell(job, job.settle, part)

    def _halve(self, rows: Sequence[Row]) -> None:
        """Run a batch that did not fit into the device's memory as two; a single row that does not is refused."""
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        if len(rows) == 1:
            message = (
                f"a text of {len(rows[0].sequence)} tokens does not fit into the memory of {self._name} now; try again later"
            )
            self._fail(rows, Overloaded(message, "DEVICE_MEMORY", 5.0, device=self._name))
            return
        logger.warning("a batch of %d rows did not fit into the memory of %s; halving it", len(rows), self._name)
        for part in (rows[: len(rows) // 2], rows[len(rows) // 2 :]):
            flight = self._launch(part)
            if flight is not None:
                self._land(flight)

    def _fail(self, rows: Sequence[Row], error: Exception) -> None:
        for job in {row.job for row in rows}:
            job.cancelled = True  # its other rows need not run
            _tell(job, job.fail, error)


def _late() -> DeadlineExceeded:
    return DeadlineExceeded("the deadline passed while the request waited; give it more time", "DEADLINE_IN_QUEUE")


def _tell(job: Job, what: Callable[[T], None], news: T) -> None:
    """Let a job know something, on its own loop; a loop that was closed meanwhile has nobody left to tell."""
    with contextlib.suppress(RuntimeError):
        job.loop.call_soon_threadsafe(what, news)
