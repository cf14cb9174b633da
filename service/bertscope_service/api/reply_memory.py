"""Limits of the memory for large replies, for all of them together and for one client."""

from __future__ import annotations

import asyncio
from collections import Counter

from bertscope_service.errors import Overloaded
from bertscope_service.observability.metrics import Metrics

REPLIES_BYTES = 1024 * 1024 * 1024
"""Maximum size of all replies in memory. The queue is bounded in tokens, and a token's logits take 122 kB in a BERT."""

SMALL_BYTES = 64 * 1024
"""Smaller replies have a quarter more memory: a server full of large replies still answers ListModels."""

RETRY_SECONDS = 1.0


class ReplyMemory:
    """Counts the bytes of replies from before they are computed until they are sent.

    A client may have half of the memory, so that a slow reader does not block others. Belongs to the event loop.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._rejected = metrics.rejected.labels("replies_full")
        self._held = Counter[str]()
        self._total = 0
        self._tasks: dict[asyncio.Task[None], int] = {}

    def hold(self, client: str, size: int, *, begun: bool = False) -> None:
        """Reserves this many bytes, in all, until the current task ends. Raises Overloaded, unless the reply has `begun`.

        The task is the one in which gRPC answers the call: it ends when the reply is sent, which is long after the servicer
        returned it if the client reads slowly. Bytes that it holds already are part of the size.
        """
        task: asyncio.Task[None] | None = asyncio.current_task()
        if task is None:
            raise RuntimeError("replies are made in a task")
        more = size - self._tasks.get(task, 0)
        if more <= 0:
            return
        own, limit = self._held[client], REPLIES_BYTES if size > SMALL_BYTES else REPLIES_BYTES * 5 // 4
        if not begun and (self._total + more > limit or own + more > limit // 2):
            self._rejected.inc()
            message = (
                f"pending replies take {self._total} bytes, {own} of them for this client, and this server allows {limit}, "
                "half of it for one client; read the pending replies, and try again later"
            )
            raise Overloaded(message, "REPLIES_FULL", RETRY_SECONDS, limit=limit)
        if task not in self._tasks:
            task.add_done_callback(lambda ended: self._release(client, ended))
        self._tasks[task] = size
        self._held[client] += more
        self._total += more

    @property
    def total(self) -> int:
        """The memory of all replies now, bytes."""
        return self._total

    def _release(self, client: str, task: asyncio.Task[None]) -> None:
        size = self._tasks.pop(task)
        self._held[client] -= size
        self._total -= size
        if not self._held[client]:
            del self._held[client]
