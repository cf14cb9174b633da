"""A model on a server, at any point of its life."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum

from bertscope_service.encoders.device_memory import release_cache
from bertscope_service.errors import FailedPrecondition, NotFound, Unavailable
from bertscope_service.models.loaded import LoadedModel, LoadSpec
from bertscope_service.models.memory import give_back


class ModelState(Enum):
    """The states of a model's life cycle."""

    LOADING = "loading"
    READY = "ready"
    UNLOADING = "unloading"


@dataclass(slots=True, eq=False)
class HostedModel:
    """A model that loads, answers, or is being unloaded; while it loads, `loaded` is None and `ready_time` (seconds since
    1970) 0.

    `awaited` is True for a model that the server begins with, which another server may have already; `users` counts the calls
    that run on it; `gradients` reads or has read the same model with a runtime that has gradients;
    `successor` is the model that is being loaded to replace it.
    """

    spec: LoadSpec
    awaited: bool = False
    state: ModelState = ModelState.LOADING
    loaded: LoadedModel | None = None
    ready_time: float = 0.0
    users: int = 0
    gradients: asyncio.Task[LoadedModel] | None = None
    successor: HostedModel | None = None
    idle: asyncio.Event = field(default_factory=asyncio.Event)

    @contextmanager
    def use(self) -> Iterator[LoadedModel]:
        """Holds the model while a call runs on it. Raises NotFound while it is unloaded; while it loads FailedPrecondition, or
        Unavailable if the server begins with it."""
        name = self.spec.name
        if self.state is ModelState.UNLOADING:
            raise NotFound(f"{name} is being unloaded; use another model", "MODEL_NOT_FOUND", model=name)
        if self.loaded is None and self.awaited:
            message = (
                f"the server starts and has not loaded {name} yet; call another server, or wait until its health says SERVING"
            )
            raise Unavailable(message, "SERVER_STARTING", model=name)
        if self.loaded is None:
            message = f"{name} is {self.state.value}; wait until it is ready, or use another model"
            raise FailedPrecondition(message, "MODEL_NOT_READY", model=name, state=self.state.value)
        self.users += 1
        try:
            yield self.loaded
        finally:
            self.users -= 1
            if not self.users:
                self.idle.set()

    async def drained(self) -> None:
        """Waits until no call runs on it."""
        while self.users:
            self.idle.clear()
            await self.idle.wait()

    async def free(self) -> None:
        """Frees its memory."""
        self.loaded = self.gradients = None
        # In a thread, because it waits for running kernels.
        await asyncio.to_thread(release_cache)
        # Runs in the background.
        asyncio.get_running_loop().run_in_executor(None, give_back)

    def require_settled(self) -> None:
        """Raises FailedPrecondition unless it is ready and not being replaced: only one change at a time is allowed."""
        name = self.spec.name
        if self.successor is not None:
            message = f"{name} is being replaced; wait until that is done, or cancel it"
            raise FailedPrecondition(message, "MODEL_BEING_REPLACED", model=name)
        if self.state is not ModelState.READY:
            what = "already being unloaded" if self.state is ModelState.UNLOADING else "still loading; wait until it is ready"
            raise FailedPrecondition(f"{name} is {what}", "MODEL_NOT_READY", model=name, state=self.state.value)
