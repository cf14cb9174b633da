"""Runs rows for callers on the event loop; the devices' workers do the computing."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakSet

import torch

from bertscope_service.engine import timeline
from bertscope_service.engine.lease import Lease
from bertscope_service.engine.rows import Job, Priority, Row
from bertscope_service.engine.timeline import Wait
from bertscope_service.engine.worker import Limits, Worker
from bertscope_service.errors import Overloaded
from bertscope_service.metrics import Metrics

CATCH_UP_SECONDS = 10.0
"""A lease begins no later than this after the one before, even if somebody who waited then still waits."""


class Engine:
    """All devices of a server. Its methods belong to the event loop and never block it."""

    def __init__(
        self,
        limits: Callable[[torch.device], Limits],
        metrics: Metrics,
        on_broken: Callable[[torch.device], None] = lambda _: None,
    ) -> None:
        """`on_broken` is called from another thread when a device has failed for good."""
        self._limits = limits
        self._metrics = metrics
        self._on_broken = on_broken
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
        """One result for each row, in order; what each row's observer dealt out. All rows are on one device.

        `deadline` is a time.monotonic(). Cancelling the call drops the rows that still wait. `admitted`: see Worker.submit.
        Raises Overloaded, DeadlineExceeded, Unavailable.
        """
        if not rows:
            return []
        worker = self._worker(rows[0].encoder.device)
        job = Job(rows, client=client, priority=priority, deadline=deadline, timeline=timeline.current.get())
        patience = worker.patience_seconds if priority is Priority.INTERACTIVE and not admitted else None
        try:
            worker.submit(job, admitted=admitted)
            return await self._results(worker, job, patience)
        finally:
            if job.timeline is not None:
                job.timeline.waited(Wait(job.came, job.began or time.perf_counter()))
            # Rows know their job. Without the way back, what it holds goes with its last reader, not when garbage is collected:
            # results may be large tensors, and those who are refused many.
            job.rows = ()

    async def _results(self, worker: Worker, job: Job, patience: float | None) -> list[Any]:
        """Wait for a job that was let in, for so many seconds at most if it does not begin, or until its deadline.

        One timer does, the nearer one: who comes to a later deadline is cancelled by gRPC, too.
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

    @asynccontextmanager
    async def lease(self, device: torch.device, *, refuse: bool) -> AsyncIterator[Lease]:
        """Have a device to oneself, once nobody else has; what runs there meanwhile are the calls of the lease.

        Others' rows wait (their deadlines end them as ever) or, with `refuse`, get Overloaded; between two leases those run
        that waited. Who needs several devices leases them in the order of their names, or two such callers may wait for each
        other. Raises Unavailable when the server stops.
        """
        worker = self._worker(device)
        async with self._leases[device]:
            await self._catch_up(device)
            lease = Lease(device, worker, refuse=refuse)
            worker.lend(lease)
            try:
                yield lease
            finally:
                # Weak: what the jobs found is not kept until somebody asks for the next lease.
                self._kept_waiting[device] = WeakSet(job.done for job in worker.take_back())

    async def _catch_up(self, device: torch.device) -> None:
        """Let those run who had to wait for the lease before: they shall not wait for the next one too."""
        waiting = list(self._kept_waiting.get(device, ()))
        if waiting:
            await asyncio.wait(waiting, timeout=CATCH_UP_SECONDS)

    def crowded(self, client: str, remaining: float | None) -> Overloaded | None:
        """Why interactive calls of a client are turned away now, on whatever device; None if one might be let in.

        `remaining` are the seconds to the call's deadline. Much cheaper than reading its request first; `run` decides about the
        others.
        """
        refusal = None
        for worker in self._workers.values():
            refusal = worker.crowded(client, remaining)
            if refusal is None:
                return None
        if refusal is not None:
            self._metrics.rejected.labels(refusal.reason.lower()).inc()
        return refusal

    def batch_tokens(self, device: torch.device) -> int:
        """Most tokens in a batch of a device."""
        return self._limits(device).batch_tokens

    async def close(self) -> None:
        """End all workers; what waits fails with Unavailable."""
        await asyncio.gather(*(asyncio.to_thread(worker.close) for worker in self._workers.values()))

    def _worker(self, device: torch.device) -> Worker:
        worker = self._workers.get(device)
        if worker is None:
            worker = self._workers[device] = Worker(device, self._limits(device), self._metrics, self._on_broken)
        return worker
