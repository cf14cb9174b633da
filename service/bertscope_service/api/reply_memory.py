"""Limits of the memory for large replies, for all of them together and for one client."""

from __future__ import annotations

import asyncio
from collections import Counter

from bertscope_service.errors import Overloaded
from bertscope_service.models.freed_memory import FreedMemory
from bertscope_service.observability.metrics import Metrics

REPLIES_BYTES = 1024 * 1024 * 1024
"""Maximum size of all replies in memory. The queue is bounded in tokens, and a token's logits take 122 kB in a BERT."""

SMALL_BYTES = 64 * 1024
"""Smaller replies have a quarter more memory: a server full of large replies still answers ListModels."""

RETRY_SECONDS = 1.0


class HeldMemory:
    """Counts bytes that tasks hold until they end, in all and for each client. Belongs to the event loop."""

    def __init__(self, metrics: Metrics, reason: str, freed: FreedMemory | None = None) -> None:
        """`reason` is that of the refusals in the metrics. `freed` is told what tasks held."""
        self._rejected = metrics.rejected.labels(reason)
        self._freed = freed
        self._held = Counter[str]()
        self._total = 0
        self._tasks: dict[asyncio.Task[None], int] = {}

    @property
    def total(self) -> int:
        """The bytes of all tasks now."""
        return self._total

    def of(self, client: str) -> int:
        """Returns the bytes of a client's tasks now."""
        return self._held[client]

    def refused(self, error: Overloaded) -> Overloaded:
        """Counts a refusal, and returns it."""
        self._rejected.inc()
        return error

    def held(self) -> int:
        """Returns the bytes of the current task."""
        return self._tasks.get(_task(), 0)

    def keep(self, client: str, more: int) -> None:
        """Adds to the bytes of the current task."""
        task = _task()
        held = self._tasks.get(task)
        if held is None:
            task.add_done_callback(lambda ended: self._release(client, ended))
        self._tasks[task] = more + (held or 0)
        self._held[client] += more
        self._total += more

    def _release(self, client: str, task: asyncio.Task[None]) -> None:
        size = self._tasks.pop(task)
        self._held[client] -= size
        self._total -= size
        if not self._held[client]:
            del self._held[client]
        self._free(size)

    def _free(self, size: int) -> None:
        if self._freed is not None:
            self._freed.add(size)


class ReplyMemory(HeldMemory):
    """Counts the bytes of replies from before they are computed until they are sent.

    A client may have half of the memory, so that a slow reader does not block others. Belongs to the event loop.
    """

    def __init__(self, metrics: Metrics, freed: FreedMemory | None = None) -> None:
        super().__init__(metrics, "replies_full", freed)

    def hold(self, client: str, size: int, *, begun: bool = False) -> None:
        """Reserves this many bytes, in all, until the current task ends. Raises Overloaded, unless the reply has `begun`.

        The task is the one in which gRPC answers the call: it ends when the reply is sent, which is long after the servicer
        returned it if the client reads slowly. Bytes that it holds already are part of the size.
        """
        more = size - self.held()
        if more <= 0:
            return
        own, limit = self.of(client), REPLIES_BYTES if size > SMALL_BYTES else REPLIES_BYTES * 5 // 4
        if not begun and (self.total + more > limit or own + more > limit // 2):
            message = (
                f"pending replies take {self.total} bytes, {own} of them for this client, and this server allows {limit}, "
                "half of it for one client; read the pending replies, and try again later"
            )
            raise self.refused(Overloaded(message, "REPLIES_FULL", RETRY_SECONDS, limit=limit))
        self.keep(client, more)


def _task() -> asyncio.Task[None]:
    task: asyncio.Task[None] | None = asyncio.current_task()
    if task is None:
        raise RuntimeError("calls are answered in tasks")
    return task
