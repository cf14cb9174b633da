"""Runs batches on a device, delivers their results, and isolates failures."""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from bertscope_service.encoders.device_memory import bound_pinned_memory, out_of_memory, release_cache
from bertscope_service.engine.batch import LaunchedBatch, answers, launch
from bertscope_service.engine.refusals import broken
from bertscope_service.engine.rows import Job, Priority, Row, by_job, deliver, fail_job, future_error, longest, tokens_of
from bertscope_service.errors import Overloaded
from bertscope_service.observability.metrics import Metrics
from bertscope_service.observability.timeline import BatchRun, Timeline

MEMORY_RETRY_SECONDS = 5.0

LARGE_BYTES = 16 * 1024 * 1024
"""Pinned memory is looked at after results of this size: smaller ones leave little behind."""

MAX_FAILED_RUNS = 16
"""After this many failed runs of a batch's parts, single rows are not the cause: the rest fails untried, and other batches
run."""

logger = logging.getLogger(__name__)


class Runner:
    """Runs batches on the thread of one device. `measured` is called with each batch's rows and seconds; steps that may take
    long run inside `watched`.

    A batch that does not fit into the device's memory runs as halves, and these as halves, down to single rows: only rows that
    don't fit alone are rejected. After any other exception the rows of each job run alone, once, so that one bad request does
    not fail its neighbours.
    """

    def __init__(
        self,
        device: torch.device,
        metrics: Metrics,
        measured: Callable[[Sequence[Row], float], None],
        watched: Callable[[Sequence[Row]], AbstractContextManager[None]] = lambda _: nullcontext(),
    ) -> None:
        self.device = device
        self.broken = False
        """True once the device has failed for good."""
        self._measured = measured
        self._watched = watched
        self._last_end = 0.0
        name = str(device)
        self._batch_rows = metrics.batch_rows.labels(name)
        self._batch_seconds = metrics.batch_seconds.labels(name)
        self._real_tokens = metrics.batch_tokens.labels(name, "real")
        self._padding_tokens = metrics.batch_tokens.labels(name, "padding")
        self._failed = metrics.batches_failed.labels(name)
        self._wait_seconds = {priority: metrics.queue_wait_seconds.labels(name, priority.name.lower()) for priority in Priority}

    def launch(self, rows: Sequence[Row]) -> LaunchedBatch | None:
        """Starts a batch. Returns None if it failed, and its jobs were failed or answered by other means."""
        batch = self._attempt(rows)
        if isinstance(batch, LaunchedBatch):
            return batch
        self._recover(rows, batch)
        return None

    def began(self, batch: LaunchedBatch) -> float:
        """Returns when the device began with a batch, as time.perf_counter(): it may have been launched while the one before
        still ran."""
        return max(batch.began, self._last_end)

    def finish(self, batch: LaunchedBatch) -> None:
        """Waits for a batch's results and passes them to their jobs."""
        error = self._finish(batch)
        if error is None:
            return
        if batch.repeatable:
            self._recover(batch.rows, error)
        else:
            self._check(error)
            self._fail(batch.rows, error)

    def _attempt(self, rows: Sequence[Row]) -> LaunchedBatch | Exception:
        """Starts a batch. Returns the error for its jobs if it can't be started."""
        began = time.perf_counter()
        self._note_waits(rows, began)
        try:
            with torch.inference_mode(), self._watched(rows):
                return launch(rows, self.device, began)
        except BaseException as error:  # noqa: BLE001 - no error may end the thread that all callers depend on
            return self._reason(rows, future_error(error))

    def _finish(self, batch: LaunchedBatch) -> Exception | None:
        """Waits for a batch and delivers its results. Returns the error for its jobs if it failed."""
        try:
            with self._watched(batch.rows):
                results = batch.results()
        except BaseException as error:  # noqa: BLE001 - as in _attempt: asynchronous errors of the device surface here
            return self._reason(batch.rows, future_error(error))
        self._measure(batch)
        dealt: defaultdict[Job, list[tuple[int, Any]]] = defaultdict(list)
        for row, result in zip(batch.rows, results, strict=True):
            dealt[row.job].append((row.index, result))
        deliver(dealt)
        if batch.copied is not None and batch.host_bytes > LARGE_BYTES:
            bound_pinned_memory()
        return None

    def _reason(self, rows: Sequence[Row], error: Exception) -> Exception:
        self._failed.inc()
        if not out_of_memory(error):
            return error
        message = f"a text of {longest(rows)} tokens does not fit into the memory of {self.device} now; try again later"
        # A new exception: the traceback of the old one would keep the tensors of this batch alive.
        return Overloaded(message, "DEVICE_MEMORY", MEMORY_RETRY_SECONDS, device=self.device)

    def _recover(self, rows: Sequence[Row], error: Exception) -> None:
        """Runs the parts of a failed batch, and the parts of failed parts, as long as that may help."""
        logger.warning("a batch of %d rows failed on %s (%s)", len(rows), self.device, type(error).__name__)
        self._check(error)
        failures, pending = 1, deque([(rows, error)])
        while pending:
            rows, error = pending.popleft()
            parts = [] if self.broken or failures > MAX_FAILED_RUNS else _split(rows, error)
            if not parts:
                self._fail(rows, error)
            elif isinstance(error, Overloaded) and self.device.type == "cuda":
                release_cache()
            for part in parts:
                waiting = [row for row in part if not row.job.cancelled]
                failure = error if failures > MAX_FAILED_RUNS else self._run(waiting)
                if failure is not None:
                    failures += 1
                    pending.append((waiting, failure))

    def _run(self, rows: Sequence[Row]) -> Exception | None:
        """Runs a batch to its end. Returns the error for its jobs if it failed."""
        if not rows:
            return None
        batch = self._attempt(rows)
        return self._finish(batch) if isinstance(batch, LaunchedBatch) else batch

    def _check(self, error: Exception) -> None:
        """Determines from the error of a batch whether the device has failed for good."""
        self.broken = self.broken or not answers(self.device, error)

    def _fail(self, rows: Sequence[Row], error: Exception) -> None:
        for job in {row.job for row in rows}:
            job.cancelled = True  # its other rows need not run
            fail_job(job, broken(self.device) if self.broken else error)

    def _measure(self, batch: LaunchedBatch) -> None:
        """Counts a batch that has ended."""
        now = time.perf_counter()
        began, self._last_end = self.began(batch), now
        rows, real = len(batch.rows), tokens_of(batch.rows)
        self._real_tokens.inc(real)
        padding = 0 if batch.rows[0].unpadded else rows * longest(batch.rows) - real
        self._padding_tokens.inc(padding)
        self._batch_rows.observe(rows)
        self._batch_seconds.observe(now - began)
        self._measured(batch.rows, now - began)
        advanced = max(began, batch.advanced)
        own_rows: Counter[Timeline | None] = Counter()
        for job, own in by_job(batch.rows).items():
            own_rows[job.timeline] += len(own)
        for timeline, count in own_rows.items():
            if timeline is not None:
                timeline.ran(BatchRun(str(self.device), began, advanced, now, count, rows, real, padding))

    def _note_waits(self, rows: Sequence[Row], began: float) -> None:
        """Records the waiting times of the jobs whose first rows these are."""
        for job in {row.job for row in rows}:
            if job.began is None:
                job.began = began
                self._wait_seconds[job.priority].observe(began - job.created)


def _split(rows: Sequence[Row], error: Exception) -> list[Sequence[Row]]:
    """Returns the parts to run in place of a failed batch; none if no part could succeed."""
    if isinstance(error, Overloaded):
        return [rows[: len(rows) // 2], rows[len(rows) // 2 :]] if len(rows) > 1 else []
    jobs = by_job(rows)
    return list(jobs.values()) if len(jobs) > 1 else []
