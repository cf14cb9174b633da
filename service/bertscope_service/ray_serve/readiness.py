"""Determines whether models can be called, from Ray's status."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from typing import Any

from ray import serve
from ray.exceptions import RayError
from ray.serve.exceptions import RayServeException

RUNNING = "RUNNING"
FRESH_SECONDS = 1.0
"""Ray's status is reused for this time: probes come from many clients, and Ray's controller is one process."""

PATIENCE_SECONDS = 1.0
"""If all models were ready last, Ray has this long to answer; until it does, later probes get "ready" at once: replicas answer
without Ray's controller."""

UNREADY_PATIENCE_SECONDS = 10.0
"""The same time if models were not ready, or nothing is known yet. NOT_SERVING makes callers go elsewhere, so it should be
true."""


class Readiness:
    """Determines whether every model has a running replica. It calls none of them: probes must pass where calls queue.

    It belongs to the event loop. Of any number of probes, one asks Ray at a time: while Ray's controller is away, no answer
    comes until it is back, and each question would hold a thread.
    """

    def __init__(self, models: Collection[str]) -> None:
        self._models = models
        self._application = serve.get_replica_context().app_name
        self._ready = False
        self._question: asyncio.Task[None] | None = None
        self._begun = self._ended = 0.0

    async def ready(self) -> bool:
        now = time.monotonic()
        if self._question is None or (self._question.done() and now - self._ended >= FRESH_SECONDS):
            self._question, self._begun = asyncio.create_task(self._ask()), now
        patience = PATIENCE_SECONDS if self._ready else UNREADY_PATIENCE_SECONDS
        # Neither a cancelled probe nor one that gives up ends the question.
        await asyncio.wait({self._question}, timeout=max(0, self._begun + patience - now))
        if self._question.done():
            self._question.result()  # raises unexpected errors
        return self._ready

    async def _ask(self) -> None:
        try:
            # The call waits for another process.
            status = await asyncio.to_thread(serve.status)
        except (RayError, RayServeException):
            return  # Ray's controller is being replaced
        finally:
            self._ended = time.monotonic()
        application = status.applications.get(self._application)
        states: dict[str, Any] = {} if application is None else application.deployments
        self._ready = all(name in states and states[name].replica_states.get(RUNNING) for name in self._models)
