"""Runs rows for callers on the event loop; the devices' workers do the computing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import torch

from bertscope_service.engine.rows import Job, Priority, Row
from bertscope_service.engine.worker import Limits, Worker
from bertscope_service.metrics import Metrics


class Engine:
    """All devices of a server. Its methods belong to the event loop and never block it."""

    def __init__(self, limits: Callable[[torch.device], Limits], metrics: Metrics) -> None:
        self._limits = limits
        self._metrics = metrics
        self._workers: dict[torch.device, Worker] = {}

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
        job = Job(rows, client=client, priority=priority, deadline=deadline)
        worker.submit(job, admitted=admitted)
        try:
            return await job.done
        except BaseException:
            worker.discard(job)
            raise
        finally:
            # Rows know their job. Without the way back, what it holds goes with its last reader, not when garbage is collected:
            # results may be large tensors.
            job.rows = ()

    def batch_tokens(self, device: torch.device) -> int:
        """Most tokens in a batch of a device."""
        return self._limits(device).batch_tokens

    async def close(self) -> None:
        """End all workers; what waits fails with Unavailable."""
        await asyncio.gather(*(asyncio.to_thread(worker.close) for worker in self._workers.values()))

    def _worker(self, device: torch.device) -> Worker:
        worker = self._workers.get(device)
        if worker is None:
            worker = self._workers[device] = Worker(device, self._limits(device), self._metrics)
        return worker
