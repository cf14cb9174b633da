"""Runs batches on a device, tells their jobs, and keeps what fails from failing others."""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any

import torch

from bertscope_service.engine.flight import Flight, answers, launch, out_of_memory
from bertscope_service.engine.rows import Job, Priority, Row, deliver, tell
from bertscope_service.engine.timeline import BatchRun
from bertscope_service.errors import Overloaded, Unavailable
from bertscope_service.metrics import Metrics

MEMORY_RETRY_SECONDS = 5.0

MAX_FAILED_RUNS = 16
"""When so many runs of a batch's parts failed, it is not a matter of some rows: the rest fails untried, and others go on."""

logger = logging.getLogger(__name__)


class Runner:
    """Belongs to the thread of one device. `measured` is told each batch's rows and how long it took, in seconds.

    A batch that does not fit into the device's memory runs as halves, and these as halves, down to single rows: only rows that
    don't fit alone are refused. After any other exception the rows of each job run alone, once, so that one poisoned request
    does not fail its neighbours.
    """

    def __init__(self, device: torch.device, metrics: Metrics, measured: Callable[[Sequence[Row], float], None]) -> None:
        self.device = device
        self.broken = False
        """Whether the device has failed for good."""
        self._measured = measured
        self._landed = 0.0
        name = str(device)
        self._batch_rows = metrics.batch_rows.labels(name)
        self._batch_seconds = metrics.batch_seconds.labels(name)
        self._real_tokens = metrics.batch_tokens.labels(name, "real")
        self._padding_tokens = metrics.batch_tokens.labels(name, "padding")
        self._failed = metrics.batches_failed.labels(name)
        self._wait_seconds = {priority: metrics.queue_wait_seconds.labels(name, priority.name.lower()) for priority in Priority}

    def launch(self, rows: Sequence[Row]) -> Flight | None:
        """Start a batch; None if it failed, and its jobs were told or answered by other means."""
        flight = self._attempt(rows)
        if isinstance(flight, Flight):
            return flight
        self._recover(rows, flight)
        return None

    def land(self, flight: Flight) -> None:
        """Wait for a batch's results and hand them to their jobs."""
        error = self._finish(flight)
        if error is None:
            return
        if flight.repeatable:
            self._recover(flight.rows, error)
        else:
            self._check()
            self._fail(flight.rows, error)

    def _attempt(self, rows: Sequence[Row]) -> Flight | Exception:
        """Start a batch; or what to tell its jobs if it can't be."""
        began = time.perf_counter()
        self._note_waits(rows, began)
        try:
            with torch.inference_mode():
                return launch(rows, self.device, began)
        except Exception as error:  # noqa: BLE001 - whatever it is must not end the thread that all callers depend on
            return self._reason(rows, error)

    def _finish(self, flight: Flight) -> Exception | None:
        """Wait for a batch and hand out its results; or what to tell its jobs if it failed."""
        try:
            results = flight.results()
        except Exception as error:  # noqa: BLE001 - as in _attempt: asynchronous errors of the device surface here
            return self._reason(flight.rows, error)
        self._measure(flight)
        dealt: defaultdict[Job, list[tuple[int, Any]]] = defaultdict(list)
        for row, result in zip(flight.rows, results, strict=True):
            dealt[row.job].append((row.index, result))
        deliver(dealt)
        return None

    def _reason(self, rows: Sequence[Row], error: Exception) -> Exception:
        self._failed.inc()
        if not out_of_memory(error):
            return error
        longest = max(len(row.sequence) for row in rows)
        message = f"a text of {longest} tokens does not fit into the memory of {self.device} now; try again later"
        # A new exception: the traceback of the old one would keep the tensors of this batch alive.
        return Overloaded(message, "DEVICE_MEMORY", MEMORY_RETRY_SECONDS, device=self.device)

    def _recover(self, rows: Sequence[Row], error: Exception) -> None:
        """Run the parts of a batch that failed, and the parts of those that fail, as long as that may help."""
        logger.warning("a batch of %d rows failed on %s (%s)", len(rows), self.device, type(error).__name__)
        self._check()
        failures, pending = 1, deque([(rows, error)])
        while pending:
            rows, error = pending.popleft()
            parts = [] if self.broken or failures > MAX_FAILED_RUNS else _split(rows, error)
            if not parts:
                self._fail(rows, error)
            elif isinstance(error, Overloaded) and self.device.type == "cuda":
                torch.cuda.empty_cache()
            for part in parts:
                waiting = [row for row in part if not row.job.cancelled]
                failure = error if failures > MAX_FAILED_RUNS else self._run(waiting)
                if failure is not None:
                    failures += 1
                    pending.append((waiting, failure))

    def _run(self, rows: Sequence[Row]) -> Exception | None:
        """Run a batch to its end; or what to tell its jobs."""
        if not rows:
            return None
        flight = self._attempt(rows)
        return self._finish(flight) if isinstance(flight, Flight) else flight

    def _check(self) -> None:
        """Find out whether the device has failed for good."""
        self.broken = self.broken or not answers(self.device)

    def _fail(self, rows: Sequence[Row], error: Exception) -> None:
        for job in {row.job for row in rows}:
            job.cancelled = True  # its other rows need not run
            tell(job, broken(self.device) if self.broken else error)

    def _measure(self, flight: Flight) -> None:
        """Count a batch that landed. On a GPU it may have been launched while the one before still ran."""
        now = time.perf_counter()
        began, self._landed = max(flight.began, self._landed), now
        lengths = [len(row.sequence) for row in flight.rows]
        real = sum(lengths)
        self._real_tokens.inc(real)
        padding = len(lengths) * max(lengths) - real
        self._padding_tokens.inc(padding)
        self._batch_rows.observe(len(lengths))
        self._batch_seconds.observe(now - began)
        self._measured(flight.rows, now - began)
        advanced = max(began, flight.advanced)
        for timeline, own_rows in Counter(row.job.timeline for row in flight.rows).items():
            if timeline is not None:
                timeline.ran(BatchRun(str(self.device), began, advanced, now, own_rows, len(lengths), real, padding))

    def _note_waits(self, rows: Sequence[Row], began: float) -> None:
        """The jobs whose first rows these are wait no longer."""
        for job in {row.job for row in rows}:
            if job.began is None:
                job.began = began
                self._wait_seconds[job.priority].observe(began - job.came)


def broken(device: torch.device) -> Unavailable:
    """What everybody hears who asks for a device that has failed for good."""
    return Unavailable(f"{device} has failed and needs a new server process; ask another server", "DEVICE_BROKEN")


def _split(rows: Sequence[Row], error: Exception) -> list[Sequence[Row]]:
    """What to run in place of a batch that failed; nothing if no part of it could fare better."""
    if isinstance(error, Overloaded):
        return [rows[: len(rows) // 2], rows[len(rows) // 2 :]] if len(rows) > 1 else []
    jobs: defaultdict[Job, list[Row]] = defaultdict(list)
    for row in rows:
        jobs[row.job].append(row)
    return list(jobs.values()) if len(jobs) > 1 else []
