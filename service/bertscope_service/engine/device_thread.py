"""Runs the work of a device in one thread: batches of rows, or the calls of a lease."""

from __future__ import annotations

import threading
import time
from typing import Protocol

import torch

from bertscope_service.engine.batch import LaunchedBatch
from bertscope_service.engine.jobs_in_flight import ensure, logger
from bertscope_service.engine.lease import Call
from bertscope_service.engine.rate_estimate import BATCH_SECONDS, RateEstimate
from bertscope_service.engine.rows import Priority, Row
from bertscope_service.engine.runs import Runner
from bertscope_service.engine.watchdog import abandon

LAUNCHES = 2.0
"""The next batch is formed at least so many launches before the running one is expected to end."""

LEAD_WEIGHT = 0.02
"""The weight of the last launch in the average. It is small: where batches were formed too late, they are formed earlier for
dozens of batches."""

LONGEST = BATCH_SECONDS[Priority.INTERACTIVE]
"""The most seconds for which rows may come."""

POLL_SECONDS = 0.001
"""A batch that ends earlier than expected is noticed within this time."""


class Source(Protocol):
    """The part of a worker that its thread needs."""

    rates: RateEstimate

    def next_work(self, *, wait: bool) -> list[Row] | Call | None:
        """Returns the next batch or call; [] if none is ready and `wait` is false; None when ended and idle."""

    def run_call(self, call: Call) -> None:
        """Runs a call of the lease."""

    def fail(self) -> None:
        """Reports that the device has failed for good."""

    @property
    def ended(self) -> bool:
        """True if new work is rejected for good."""


class DeviceThread:
    """The thread of a device, which runs from the start on.

    On a GPU it launches a batch while the one before is still running, so that the device does not wait for the host, but only
    shortly before that ends: rows that come meanwhile share it, and those of a new client need not wait for two batches.
    """

    def __init__(self, device: torch.device, threads: int, source: Source, runner: Runner) -> None:
        """`threads` is the number of CPU threads of a batch, 0 for one per physical core."""
        self._device = device
        self._threads = threads
        self._source = source
        self._runner = runner
        self._lead = LONGEST
        """The next batch is formed so many seconds before the running one is expected to end: LAUNCHES on average, and twice as
        many each time that the device had to wait. As long as few were measured, it is formed at once."""
        self._thread = threading.Thread(target=self._work, name=f"bertscope-{device}", daemon=True)
        self._thread.start()

    def join(self, seconds: float | None) -> None:
        """Waits for the end of the thread; after `seconds`, leaves it running."""
        self._thread.join(seconds)
        if self._thread.is_alive():
            logger.warning("%s is still running, and nobody waits for it: the process ends without it", self._device)
            abandon(self._thread)

    def _work(self) -> None:
        try:
            self._run()
        except BaseException:  # noqa: BLE001 - callers must not wait for a thread that has ended
            ensure(lambda: logger.critical("%s has failed after an error outside any batch", self._device, exc_info=True))
            self._source.fail()

    def _run(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.set_device(self._device)  # events and pinned memory belong to the current device
        elif self._threads:
            torch.set_num_threads(self._threads)
        launched: LaunchedBatch | None = None
        while True:
            waited = launched is not None and self._let_rows_come(launched)
            work = self._source.next_work(wait=launched is None)
            if work is None:
                return
            if isinstance(work, Call):
                self._source.run_call(work)
                del work
                continue
            began = time.perf_counter()
            batch = self._runner.launch(work) if work else None
            if launched is not None and batch is not None:
                self._note_launch(time.perf_counter() - began, late=waited and launched.ended)
            if launched is not None:
                self._runner.finish(launched)
            launched = batch
            if launched is not None and launched.copied is None:
                self._runner.finish(launched)
                launched = None
            if self._runner.broken and not self._source.ended:
                self._source.fail()
            # While this thread waits, its variables must not keep an unloaded model alive.
            del work, batch

    def _note_launch(self, seconds: float, *, late: bool) -> None:
        """Records a launch. `late`: the batch before had ended by then, though there was time."""
        lead = 2 * self._lead if late else self._lead + LEAD_WEIGHT * (LAUNCHES * seconds - self._lead)
        self._lead = min(LONGEST, lead)

    def _let_rows_come(self, running: LaunchedBatch) -> bool:
        """Waits until the next batch has to be formed, or the running one has ended, which leases wait for, too; not if it is
        short or its time unknown. Returns whether it has waited."""
        seconds, waited = min(self._source.rates.soonest(running.rows), LONGEST), False
        until = self._runner.began(running) + seconds - self._lead
        while (left := until - time.perf_counter()) > 0 and not running.ended:
            waited = True
            time.sleep(min(left, POLL_SECONDS))
        return waited
