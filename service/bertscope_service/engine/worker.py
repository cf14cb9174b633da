"""Queues the rows of all models on a device for the device's one thread.

Two models on the same cores or the same GPU would only compete, so there is never more than one running batch.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import torch

from bertscope_service.engine.admission import Admission
from bertscope_service.engine.device_thread import DeviceThread
from bertscope_service.engine.jobs_in_flight import JobsInFlight, ensure, logger
from bertscope_service.engine.lease import Call, Lease
from bertscope_service.engine.limits import UNMEASURED_GPU_RATE, Limits
from bertscope_service.engine.queue import RowQueue
from bertscope_service.engine.rate_estimate import RateEstimate
from bertscope_service.engine.refusals import broken, late, lent, stalled, stopping
from bertscope_service.engine.rows import Job, Row, fail_job, tokens_of
from bertscope_service.engine.runs import Runner
from bertscope_service.engine.watchdog import Watchdog, Work
from bertscope_service.errors import Overloaded, ServiceError
from bertscope_service.observability.metrics import Metrics

DEADLINE_SLACK_SECONDS = 0.05


class Worker:
    """The queue of a device and the thread that empties it. Public methods may be called from any thread.

    `on_broken` is called on that thread, once, if the device has failed for good, also after an error outside any batch.
    `on_stalled` is called by `check_stall`: with True when a batch takes much longer than such batches do, with False when it
    has ended after all.
    """

    def __init__(
        self,
        device: torch.device,
        limits: Limits,
        metrics: Metrics,
        on_broken: Callable[[torch.device], None],
        on_stalled: Callable[[torch.device, bool], None],
    ) -> None:
        self.device, self._limits, self._metrics, self._name = device, limits, metrics, str(device)
        self._on_broken = on_broken
        self._on_stalled = on_stalled
        self.rates = RateEstimate()
        self._queue = RowQueue(self.rates.charge, self.rates.saturation)
        waiting = limits.waiting_tokens(UNMEASURED_GPU_RATE if device.type == "cuda" else 0.0)
        self._admission = Admission(self._name, waiting, limits.queue_seconds, limits.batch_tokens)
        self._ready = threading.Condition()
        self._waking = False  # True if the loop will wake the thread soon
        self._ended: Callable[[], ServiceError] | None = None
        self._lease: Lease | None = None
        self._calls: deque[Call] = deque()
        self._in_flight = JobsInFlight()
        self._watchdog = Watchdog(self.rates, limits.stall_seconds)
        self._stalled: Work | None = None
        self._runner = Runner(device, metrics, self._measured, self._watchdog.batch)
        self._watch_queue()
        self._thread = DeviceThread(device, limits.threads, self, self._runner)

    def submit(self, job: Job, *, admitted: bool = False) -> None:
        """Queues a job. `admitted`: it continues an admitted job, and is not rejected.

        Raises Overloaded if the queue is full, its deadline can't be met, or if the device is lent with `refuse`; Unavailable
        after close(), or if the device has failed or is stalled. The submitter of a job calls `forget` at its end.
        """
        with self._ready:
            self._require_running()
            lease = self._lease
            job.token_seconds = self.rates.expect(job.rows[0])
            if not admitted:
                self._admit(job, lease)
            if lease is not None:
                lease.waited += 1
            self._in_flight.add(job)
            self._queue.push(job)
            if not self._waking:
                self._waking = True
                job.loop.call_soon(self._wake)

    def _wake(self) -> None:
        """Wakes the thread after all submits of one iteration of the loop: jobs that came together share a batch."""
        with self._ready:
            self._waking = False
            self._ready.notify()

    def forget(self, job: Job) -> None:
        """Notes that nobody waits for a job any more."""
        self._in_flight.remove(job)

    def overload(self, client: str, remaining: float | None) -> Overloaded | None:
        """Returns why interactive jobs of a client, with this many seconds to their deadline, are rejected now; None if one
        might be admitted."""
        with self._ready:
            return self._admission.refuse_before_reading(self._queue.backlog, client, remaining)

    def discard(self, job: Job) -> None:
        """Removes the rows of a job that nobody waits for; rows in a running batch finish, and their results are dropped."""
        with self._ready:
            # gRPC cancels a call whose deadline has passed, and may be a moment early.
            reason = job.abandoned(time.monotonic() + DEADLINE_SLACK_SECONDS) or "cancelled"
            job.cancelled = True
            gone = self._queue.remove(job)
        self._metrics.rows_dropped.labels(reason).inc(gone)

    def expire(self, job: Job) -> None:
        """Fails a job whose deadline has passed, if any of its rows still waits: the thread may be busy for long."""
        with self._ready:
            waiting = self._queue.remove(job)
        self._metrics.rows_dropped.labels("deadline").inc(waiting)
        if waiting:
            fail_job(job, late())

    @property
    def patience_seconds(self) -> float:
        """The seconds after which a waiting job is given up."""
        return self._admission.patience_seconds

    def give_up(self, job: Job) -> None:
        """Rejects a job after all if none of its rows has begun, unless it waits for the end of a lease."""
        with self._ready:
            if self._lease is not None or any(row.taken for row in job.rows):
                return
            waiting = self._queue.remove(job)
            refusal = self._refused(self._admission.give_up(self._queue.backlog))
        self._metrics.rows_dropped.labels("overload").inc(waiting)
        fail_job(job, refusal)

    def lend(self, lease: Lease) -> None:
        """Runs only the calls of a lease, after the running batch. Raises Unavailable, see submit()."""
        with self._ready:
            self._require_running()
            self._lease = lease
            lease.waited = len(self._queue.jobs)

    def take_back(self) -> set[Job]:
        """Resumes running rows and returns the waiting jobs; calls of the lease that have not begun never do."""
        with self._ready:
            self._lease = None
            while self._calls:
                self._calls.popleft().future.cancel()
            self._ready.notify()
            return self._queue.jobs

    def enqueue(self, call: Call) -> None:
        """Runs a call of the lease. Raises Unavailable, see submit()."""
        with self._ready:
            self._require_running()
            self._calls.append(call)
            self._ready.notify()

    def check_stall(self, now: float) -> None:
        """Checks whether the thread hangs, and reports it; `now` is a time.monotonic(). Called periodically, by one thread.

        While it hangs all jobs are rejected, including waiting ones and those of the running batch. That may be temporary: on a
        machine that was busy or swapped, the batch ends after all.
        """
        work = self._watchdog.check(now)
        with self._ready:
            before, self._stalled = self._stalled, work
            if (work is None) is (before is None) or self._ended is not None:
                return
            calls = [] if work is None else self._empty_queue()
        if work is not None:
            self._in_flight.fail(partial(stalled, self.device, work.name, work.seconds), calls)
            message = "%s is stalled: %s has run for %.3g s, and may take %.3g s; its calls get UNAVAILABLE until it has ended"
            ensure(lambda: logger.critical(message, self.device, work.name, work.seconds, work.bound))
        elif before is not None:
            message = "%s continues: %s has ended after some %.3g s"
            ensure(lambda: logger.warning(message, self.device, before.name, before.seconds))
        ensure(lambda: self._on_stalled(self.device, work is not None))

    def close(self, seconds: float | None = None) -> None:
        """Fails waiting jobs, finishes the running batch or call, and ends the thread; after `seconds`, leaves it running."""
        self._stop(stopping)
        self._thread.join(seconds)

    def run_call(self, call: Call) -> None:
        """Runs a call of the lease; on the device's thread."""
        self._in_flight.call = call
        with self._watchdog.call(call):
            call.run()
        self._in_flight.call = None  # not after an error: then it is failed with all others

    def fail(self) -> None:
        """Reports that the device has failed; all later calls are rejected. Each step runs even if another fails."""
        why = partial(broken, self.device)
        with self._ready:
            self._ended = why
        ensure(lambda: self._in_flight.fail(why, list(self._calls)))
        ensure(self._empty_queue)
        ensure(lambda: self._metrics.device_broken.labels(self._name).set(1))
        ensure(lambda: self._on_broken(self.device))

    def next_work(self, *, wait: bool) -> list[Row] | Call | None:
        """Returns the next batch; [] if none is ready and `wait` is false; None when ended and idle.

        While the device is lent, it returns the next call instead, but none before the last batch has ended: only if `wait` is
        true.
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

    @property
    def ended(self) -> bool:
        """True after close(), and if the device has failed."""
        return self._ended is not None

    def _require_running(self) -> None:
        """Raises Unavailable unless the thread runs new work."""
        if self._ended is not None:
            raise self._ended()
        if self._stalled is not None:
            raise stalled(self.device, self._stalled.name, self._stalled.seconds)

    def _admit(self, job: Job, lease: Lease | None) -> None:
        if lease is not None and lease.refuse:
            lease.refused += 1
            raise self._refused(lent(self._name, lease.retry_after))
        refusal = self._admission.refuse(self._queue.backlog, job, time.monotonic())
        if refusal is not None:
            if lease is not None:
                refusal.retry_after = max(refusal.retry_after, lease.retry_after)
            raise self._refused(refusal)

    def _refused(self, refusal: Overloaded) -> Overloaded:
        self._metrics.rejected.labels(refusal.reason.lower()).inc()
        return refusal

    def _stop(self, why: Callable[[], ServiceError]) -> None:
        """Rejects new work, and fails waiting work."""
        with self._ready:
            self._ended = self._ended or why
            waiting = {row.job for row in self._queue.clear()}
            calls = self._take_calls()
            self._ready.notify()
        for job in waiting:
            fail_job(job, why())
        for call in calls:
            call.refuse(why())

    def _take_calls(self) -> list[Call]:
        """Removes and returns the calls of the lease that have not begun; they never will."""
        calls, self._calls = list(self._calls), deque()
        return calls

    def _watch_queue(self) -> None:
        """Lets metrics read the queue at each scrape: setting them would cost every call a microsecond or two."""
        self._metrics.queue_rows.labels(self._name).set_function(lambda: self._queue.rows)
        self._metrics.queue_tokens.labels(self._name).set_function(lambda: self._queue.tokens)
        self._metrics.queue_seconds.labels(self._name).set_function(lambda: self._queue.backlog.total.seconds)
        self._metrics.queue_limit_tokens.labels(self._name).set_function(lambda: self._admission.limit_tokens)
        self._metrics.device_broken.labels(self._name).set(0)
        self._metrics.device_stalled.labels(self._name).set_function(lambda: self._stalled is not None)
        self._metrics.device_lent.labels(self._name).set_function(lambda: self._lease is not None)

    def _empty_queue(self) -> list[Call]:
        """Replaces the queue, which an error may have left inconsistent. Returns the lease's calls; the caller fails jobs."""
        with self._ready:
            for job in self._in_flight.jobs():
                for row in job.rows:
                    row.taken = True
            self._queue = RowQueue(self.rates.charge, self.rates.saturation)
            return self._take_calls()

    def _take(self) -> list[Row]:
        """Takes the next batch from the queue, and fails the jobs of rows that were dropped."""
        taken = self._queue.take(self._limits.batch_tokens, time.monotonic(), self.rates.batch_tokens)
        for row, reason in taken.dropped:
            self._metrics.rows_dropped.labels(reason).inc()
            fail_job(row.job, late())
        return taken.rows

    def _measured(self, rows: Sequence[Row], seconds: float) -> None:
        """Updates the rate estimate with a batch, and charges its clients for the time that it took."""
        tokens, row, seconds = tokens_of(rows), rows[0], max(seconds, 1e-9)
        with self._ready:
            busy = bool(self._queue.rows)
            self.rates.note(row.encoder, row.job.priority, row.pace, tokens / seconds, busy=busy)
            self._queue.settle(rows, seconds)
            if busy:
                limit = self._limits.waiting_tokens(self.rates.note_busy(tokens, seconds))
                self._admission = replace(self._admission, limit_tokens=limit)
