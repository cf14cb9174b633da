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


class Readiness:
    """Says whether every model has a replica that runs. It asks none of them: probes must pass where calls queue."""

    def __init__(self, models: Collection[str]) -> None:
        self._models = models
        self._application = serve.get_replica_context().app_name
        self._asking = asyncio.Lock()
        self._ready = False
        self._asked = -FRESH_SECONDS

    async def ready(self) -> bool:
        async with self._asking:
            if time.monotonic() - self._asked >= FRESH_SECONDS:
                # It waits for another process.
                self._ready = await asyncio.to_thread(self._ask)
                self._asked = time.monotonic()
        return self._ready

    def _ask(self) -> bool:
        try:
            application = serve.status().applications.get(self._application)
        except (RayError, RayServeException):
            # Ray's controller is being replaced. Replicas answer without it.
            return self._ready
        if application is None:
            return False
        states: dict[str, Any] = {name: one.replica_states for name, one in application.deployments.items()}
        return all(states.get(name, {}).get(RUNNING) for name in self._models)
