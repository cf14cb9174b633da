"""Memory for large replies: how much all of them together may take, and those of one client."""

from __future__ import annotations

import asyncio
from collections import Counter

from bertscope_service.errors import Overloaded
from bertscope_service.metrics import Metrics

REPLIES_BYTES = 1024 * 1024 * 1024
"""All replies at work together may take this. The queue is bounded in tokens, and a token's logits take 122 kB in a BERT."""

RETRY_SECONDS = 1.0


class ReplyRoom:
    """Counts replies from before they are computed until their callers have them.

    A client may have half of the room, so that one that reads slowly does not keep it all from others. Belongs to the event
    loop.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._rejected = metrics.rejected.labels("replies_full")
        self._held = Counter[str]()

    def hold(self, client: str, size: int) -> None:
        """Have room for so many bytes until the current task ends. Raises Overloaded.

        The task is the one in which gRPC answers the call: it ends when the reply is sent, long after the servicer returned it
        if the caller reads slowly.
        """
        total, own = self._held.total(), self._held[client]
        if total + size > REPLIES_BYTES or own + size > REPLIES_BYTES // 2:
            self._rejected.inc()
            message = (
                f"replies of {total} bytes are at work, {own} of them this client's, and this server holds {REPLIES_BYTES}, "
                "half of them for one client; read what was answered, and try again later"
            )
            raise Overloaded(message, "REPLIES_FULL", RETRY_SECONDS, limit=REPLIES_BYTES)
        self._held[client] += size

        def give_back(_: asyncio.Task[None]) -> None:
            self._held[client] -= size
            if not self._held[client]:
                del self._held[client]

        task: asyncio.Task[None] | None = asyncio.current_task()
        if task is None:
            raise RuntimeError("replies are made in a task")
        task.add_done_callback(give_back)
