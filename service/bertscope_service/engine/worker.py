"""One thread per device runs the batches of all models on it.

Two models on the same cores or the same GPU would only fight, so there is never more than one batch at work; on a GPU a second
one is launched while the first is still running, so that the device does not wait for the host.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch

from bertscope_service.analyses.observer import Readout
from bertscope_service.encoders.base import Encoder, State
from bertscope_service.engine.queue import RowQueue
from bertscope_service.engine.rows import Job, Priority, Row
from bertscope_service.errors import DeadlineExceeded, Overloaded, Unavailable
from bertscope_service.metrics import Metrics

DEADLINE_SLACK_SECONDS = 0.05

BULK_BATCH_SECONDS = 0.05
"""A batch of bulk rows should not take longer: an interactive call may have to wait for one."""

MIN_BULK_TOKENS = 128
"""Smaller batches than this waste the device."""

T = TypeVar("T")
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a device takes: tokens in a batch (padding included), tokens waiting, CPU threads (0: one per physical core)."""

    batch_tokens: int
    queue_tokens: int
    threads: int = 0


@dataclass(slots=True)
class _Flight:
    """A batch that was launched: its results are on their way to the host; `landed` is None on a CPU, where they are there.

    `kind` is the key that its rows had when they began.
    """

    rows: Sequence[Row]
    kind: Hashable
    readout: Readout
    host: tuple[torch.Tensor, ...]
    landed: torch.cuda.Event | None
    began: float


class Worker:
    """The queue of a device and the thread that empties it. `submit`, `discard` and `close` may be called from any thread."""

    def __init__(self, device: torch.device, limits: Limits, metrics: Metrics) -> None:
        self.device = device
        self._limits = limits
        self._metrics = metrics
        self._name = str(device)
        self._queue = RowQueue(limits.queue_tokens)
        self._ready = threading.Condition()
        self._closed = False
        self._tokens_per_second = 0.0
        self._bulk_rates: WeakKeyDictionary[Encoder, dict[Hashable, float]] = WeakKeyDictionary()
        self._landed = 0.0
        metrics.queue_limit_tokens.labels(self._name).set(limits.queue_tokens)
        self._thread = threading.Thread(target=self._work, name=f"bertscope-{device}", daemon=True)
        self._thread.start()

    def submit(self, job: Job, *, admitted: bool = False) -> None:
        """Let a job wait. `admitted`: it continues one that was let in before, and is not turned away.

        Raises Overloaded if there is no room, Unavailable after close().
        """
        with self._ready:
            if self._closed:
                raise Unavailable("the server is stopping; ask another one", "DRAINING")
            if not admitted and not self._queue.has_room(job.tokens):
                self._metrics.rejected.labels("queue_full").inc()
                raise self._overloaded(job.tokens)
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

    def close(self) -> None:
        """Fail what waits, finish the batch at work, end the thread."""
        with self._ready:
            self._closed = True
            waiting = {row.job for row in self._queue.clear()}
            self._report_queue()
            self._ready.notify()
        for job in waiting:
            _tell(job, job.fail, Unavailable("the server is stopping; ask another one", "DRAINING"))
        self._thread.join()

    def _overloaded(self, tokens: int) -> Overloaded:
        wait = self._queue.tokens / self._tokens_per_second if self._tokens_per_second else 1.0
        message = (
            f"{self._queue.tokens} tokens wait on {self._name} and the queue takes {self._queue.limit_tokens}; try again later"
        )
        return Overloaded(message, "QUEUE_FULL", min(30.0, max(0.05, wait)), device=self._name, tokens=tokens)

    def _report_queue(self) -> None:
        self._metrics.queue_rows.labels(self._name).set(self._queue.rows)
        self._metrics.queue_tokens.labels(self._name).set(self._queue.tokens)

    def _work(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)  # events and pinned memory belong to the current device
        elif self._limits.threads:
            torch.set_num_threads(self._limits.threads)
        flying: _Flight | None = None
        while True:
            rows = self._next(wait=flying is None)
            if rows is None:
                return
            flight = self._launch(rows) if rows else None
            if flying is not None:
                self._land(flying)
            flying = flight
            if flying is not None and flying.landed is None:
                self._land(flying)
                flying = None
            # While this thread waits, its variables must not keep an unloaded model alive.
            del rows, flight

    def _next(self, *, wait: bool) -> list[Row] | None:
        """The next batch; [] if none is ready and `wait` is false; None when closed and idle."""
        with self._ready:
            while True:
                rows = self._take()
                if rows or not wait:
                    return rows
                if self._closed:
                    return None
                del rows
                self._ready.wait()

    def _take(self) -> list[Row]:
        """The next batch from the queue; tells the jobs of rows that were dropped on the way."""
        taken = self._queue.take(self._limits.batch_tokens, time.monotonic(), self._bulk_tokens)
        for row, reason in taken.dropped:
            self._metrics.rows_dropped.labels(reason).inc()
            late = DeadlineExceeded("the deadline passed while the request waited; give it more time", "DEADLINE_IN_QUEUE")
            _tell(row.job, row.job.fail, late)
        self._report_queue()
        return taken.rows

    def _bulk_tokens(self, row: Row) -> int:
        """How many tokens of bulk rows like this one a batch may have, going by how fast their last batches were.

        Rows that run one layer are ten times as fast as those that run all; the first ones of a kind go by the slowest kind.
        """
        rates = self._bulk_rates.get(row.encoder)
        if rates is None:
            return MIN_BULK_TOKENS
        rate = rates.get(row.key) or min(rates.values())
        return max(MIN_BULK_TOKENS, int(rate * BULK_BATCH_SECONDS))

    def _launch(self, rows: Sequence[Row]) -> _Flight | None:
        """Start a batch; None if it failed and its jobs were told."""
        began = time.perf_counter()
        try:
            with torch.inference_mode():
                return self._run(rows, began)
        except Exception as error:  # whatever went wrong must not end the thread that all callers depend on
            if not _out_of_memory(error):
                logger.exception("a batch of %d rows failed on %s", len(rows), self._name)
                self._fail(rows, error)
                return None
        # The halves run out here: in there, the error's traceback would keep the tensors of this batch alive.
        self._halve(rows)
        return None

    def _run(self, rows: Sequence[Row], began: float) -> _Flight:
        encoder, kind = rows[0].encoder, rows[0].key
        states = [row.state for row in rows if row.state is not None]
        state = State.stack(states) if states else encoder.begin([row.sequence for row in rows])
        gates = encoder.place_gates([row.gates for row in rows])
        readout = type(rows[0].observer).run(encoder, state, gates, [row.observer for row in rows])
        for row in rows:
            row.state = None  # a kept state is used once
        if self.device.type == "cpu":
            return _Flight(rows, kind, readout, readout.tensors, None, began)
        host = tuple(tensor.to("cpu", non_blocking=True) for tensor in readout.tensors)
        landed = torch.cuda.Event()
        landed.record(torch.cuda.current_stream(self.device))
        return _Flight(rows, kind, readout, host, landed, began)

    def _measure(self, flight: _Flight) -> None:
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
            rates, rate = self._bulk_rates.setdefault(flight.rows[0].encoder, {}), real / seconds
            rates[flight.kind] = rate + 0.5 * (rates.get(flight.kind, rate) - rate)

    def _land(self, flight: _Flight) -> None:
        """Wait for a batch's results and hand them to their jobs."""
        try:
            if flight.landed is not None:
                flight.landed.synchronize()
            results = flight.readout.deal(tuple(tensor.numpy() for tensor in flight.host))
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


def _out_of_memory(error: Exception) -> bool:
    """Whether a device's memory was too small. PyTorch's CPU allocator has no class of its own for that."""
    return isinstance(error, torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
    )


def _tell(job: Job, what: Callable[[T], None], news: T) -> None:
    """Let a job know something, on its own loop; a loop that was closed meanwhile has nobody left to tell."""
    with contextlib.suppress(RuntimeError):
        job.loop.call_soon_threadsafe(what, news)
