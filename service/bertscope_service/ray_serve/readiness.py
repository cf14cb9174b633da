"""Whether models can be asked, as Ray knows it."""

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
"""What Ray said is taken for true so long: probes come from many clients, and Ray's controller is one process."""

PATIENCE_SECONDS = 1.0
"""Where all models could be asked last, Ray has so long to answer; then, until it does, probes hear that they can, at once:
replicas answer without Ray's controller."""

DOUBT_SECONDS = 10.0
"""The same where they could not, or nothing is known yet. NOT_SERVING makes callers turn away, so it should be true."""


class Readiness:
    """Says whether every model has a replica that runs. It asks none of them: probes must pass where calls queue.

    Belongs to the event loop. Of any number of probes, one asks Ray at a time: while Ray's controller is away, no answer comes
    until it is back, and each question would hold a thread.
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
        patience = PATIENCE_SECONDS if self._ready else DOUBT_SECONDS
        # Neither a probe that ends nor one that waits no longer ends the question.
        await asyncio.wait({self._question}, timeout=max(0, self._begun + patience - now))
        if self._question.done():
            self._question.result()  # raises what nobody foresaw
        return self._ready

    async def _ask(self) -> None:
        try:
            # It waits for another process.
            status = await asyncio.to_thread(serve.status)
        except (RayError, RayServeException):
            return  # Ray's controller is being replaced
        finally:
            self._ended = time.monotonic()
        application = status.applications.get(self._application)
        states: dict[str, Any] = {} if application is None else application.deployments
        self._ready = all(name in states and states[name].replica_states.get(RUNNING) for name in self._models)
