"""Runs rows for callers on the event loop; the devices' worker threads compute."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar
from weakref import WeakSet

import torch

from bertscope_service.encoders.base import Encoder
from bertscope_service.engine.computing import Computing
from bertscope_service.engine.daemon_thread import in_daemon_thread
from bertscope_service.engine.lease import Lease
from bertscope_service.engine.limits import Limits
from bertscope_service.engine.rows import Job, Priority, Row, changes_to_place, place_changes
from bertscope_service.engine.worker import Worker
from bertscope_service.errors import Overloaded
from bertscope_service.observability import timeline
from bertscope_service.observability.metrics import Metrics
from bertscope_service.observability.timeline import Wait

CATCH_UP_SECONDS = 10.0
"""A lease begins no later than this after the one before, even if rows that waited then still wait."""

INLINE_CHANGES = 256
"""The positions of so many changes are found on the loop, in some milliseconds; waking a thread would take longer for few."""

CHECK_SECONDS = 1.0
"""The longest interval between two checks for hanging devices."""

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Engine:
    """All devices of a server. Its methods belong to the event loop and never block it."""

    def __init__(
        self,
        limits: Callable[[torch.device], Limits],
        metrics: Metrics,
        on_broken: Callable[[torch.device], None] = lambda _: None,
        on_stalled: Callable[[torch.device, bool], None] = lambda _, __: None,
    ) -> None:
        """`on_broken` is called from another thread when a device has failed for good; `on_stalled` is called on the event
        loop, with True when a device hangs, and with False when it continues after all."""
        self._limits = limits
        self._metrics = metrics
        self._on_broken = on_broken
        self._on_stalled = on_stalled
        self._next_check: asyncio.TimerHandle | None = None
        self._computing = Computing()
        self._workers: dict[torch.device, Worker] = {}
        self._leases: dict[torch.device, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._kept_waiting: dict[torch.device, WeakSet[asyncio.Future[list[Any]]]] = {}

    async def run(
        self,
        rows: Sequence[Row],
        *,
        client: str,
        deadline: float | None = None,
        priority: Priority = Priority.INTERACTIVE,
        admitted: bool = False,
    ) -> list[Any]:
        """Returns one result for each row, in order, as its observer returned it. All rows are on one device.

        `deadline` is a time.monotonic(). Cancelling the call drops the rows that still wait. `admitted`: see Worker.submit.
        Raises Overloaded, DeadlineExceeded, Unavailable; InvalidArgument for a row without the positions of its changes.
        """
        if not rows:
            return []
        worker = self._worker(rows[0].encoder.device)
        changes = changes_to_place(rows)
        if changes > INLINE_CHANGES:
            await self.compute(partial(place_changes, rows), client=client, deadline=deadline, priority=priority)
        elif changes:
            place_changes(rows)
        job = Job(rows, client=client, priority=priority, deadline=deadline, timeline=timeline.current.get())
        patience = worker.patience_seconds if priority is Priority.INTERACTIVE and not admitted else None
        try:
            worker.submit(job, admitted=admitted)
            return await self._results(worker, job, patience)
        finally:
            worker.forget(job)
            if job.timeline is not None:
                job.timeline.waited(Wait(job.created, job.began or time.perf_counter()))
            # Rows refer to their job. Without this reference back, the job is freed with its last reader, not at the next
            # garbage collection: results may be large tensors, and rejected jobs many.
            job.rows = ()

    async def _results(self, worker: Worker, job: Job, patience: float | None) -> list[Any]:
        """Waits for an admitted job until its deadline, and for at most `patience` seconds if it does not begin.

        One timer, the nearer one, is enough: gRPC also cancels a call at its deadline.
        """
        remaining = None if job.deadline is None else job.deadline - time.monotonic()
        timer = None
        if remaining is not None and (patience is None or remaining <= patience):
            timer = job.loop.call_later(remaining, worker.expire, job)
        elif patience is not None:
            timer = job.loop.call_later(patience, worker.give_up, job)
        try:
            return await job.done
        except BaseException:
            worker.discard(job)
            raise
        finally:
            if timer is not None:
                timer.cancel()

    async def compute(
        self,
        work: Callable[[], T],
        *,
        client: str,
        deadline: float | None = None,
        priority: Priority = Priority.INTERACTIVE,
    ) -> T:
        """Runs a computation on the host in a thread, in its client's turn; `deadline` is a time.monotonic().

        Cancelling this ends the work at its next `cancellation.check`. Raises DeadlineExceeded, Unavailable when the server
        stops, and the errors of the work.
        """
        return await self._computing[priority].run(work, client=client, deadline=deadline)

    @asynccontextmanager
    async def lease(self, device: torch.device, *, refuse: bool) -> AsyncIterator[Lease]:
        """Reserves a device for one caller, once nobody else has it; only the calls of the lease run there meanwhile.

        Others' rows wait (their deadlines apply as ever) or, with `refuse`, get Overloaded; rows that waited run between two
        leases. A caller that needs several devices leases them in the order of their names, or two such callers may deadlock.
        Raises Unavailable when the server stops.
        """
        worker = self._worker(device)
        async with self._leases[device]:
            await self._catch_up(device)
            lease = Lease(device, worker, refuse=refuse)
            worker.lend(lease)
            try:
                yield lease
            finally:
                # Weak: the jobs' results are not kept until the next lease.
                self._kept_waiting[device] = WeakSet(job.done for job in worker.take_back())

    async def _catch_up(self, device: torch.device) -> None:
        """Waits until jobs that had to wait for the lease before have run, so that they do not wait for the next one too."""
        waiting = list(self._kept_waiting.get(device, ()))
        if waiting:
            await asyncio.wait(waiting, timeout=CATCH_UP_SECONDS)

    def overload(self, client: str, remaining: float | None) -> Overloaded | None:
        """Returns why interactive calls of a client are rejected now, whatever the device, or None if one might be admitted.

        `remaining` are the seconds to the call's deadline. This is much cheaper than reading the request first; `run` decides
        about the other calls.
        """
        refusal = None
        for worker in self._workers.values():
            refusal = worker.overload(client, remaining)
            if refusal is None:
                return None
        if refusal is not None:
            self._metrics.rejected.labels(refusal.reason.lower()).inc()
        return refusal

    def note_saturation(self, encoder: Encoder, tokens: int) -> None:
        """Lets batches of an encoder have any padding up to so many tokens: they take no longer than smaller ones."""
        self._worker(encoder.device).rates.note_saturation(encoder, tokens)

    def batch_tokens(self, device: torch.device) -> int:
        """Returns the largest number of tokens in a batch of a device."""
        return self._limits(device).batch_tokens

    async def close(self, seconds: float | None = None) -> None:
        """Ends all workers; waiting jobs and computations fail with Unavailable. A device that still computes after this many
        seconds is left to itself; None waits without limit."""
        self._computing.close()
        await asyncio.gather(*(in_daemon_thread(partial(worker.close, seconds)) for worker in self._workers.values()))
        if self._next_check is not None:
            self._next_check.cancel()

    def _worker(self, device: torch.device) -> Worker:
        worker = self._workers.get(device)
        if worker is None:
            limits = self._limits(device)
            worker = self._workers[device] = Worker(device, limits, self._metrics, self._on_broken, self._on_stalled)
            if limits.stall_seconds and self._next_check is None:
                self._check_devices(asyncio.get_running_loop(), min(CHECK_SECONDS, limits.stall_seconds / 4))
        return worker

    def _check_devices(self, loop: asyncio.AbstractEventLoop, interval: float) -> None:
        """Checks periodically whether a device hangs."""
        self._next_check = loop.call_later(interval, self._check_devices, loop, interval)
        for worker in self._workers.values():
            try:
                worker.check_stall(time.monotonic())
            except Exception:
                logger.exception("could not check whether %s hangs; the check will be repeated", worker.device)
