"""Limits of the memory for large requests: what is read from them and planned, for all of them together and for one client."""

from __future__ import annotations

from bertscope_service.api.reply_memory import HeldMemory
from bertscope_service.errors import Overloaded
from bertscope_service.observability.metrics import Metrics

PLAN_BYTES = 24
"""Memory that the plan of a request takes for each of its bytes, approximately: a labelled span of 9 bytes becomes some objects
of Python."""

VECTOR_COPIES = 4
"""Copies of the large vectors of a request: as they came, as they are checked, in float64 to be centred."""

REQUESTS_BYTES = 512 * 1024 * 1024
"""Maximum size of the plans of all large requests. A single one always fits."""

RETRY_SECONDS = 2.0


class RequestMemory(HeldMemory):
    """Counts the memory of large requests from before they are planned until they are answered.

    A client may have half of it. Belongs to the event loop.
    """

    def __init__(self, metrics: Metrics) -> None:
        super().__init__(metrics, "requests_full")

    def hold(self, client: str, request_bytes: int, vector_bytes: int = 0) -> None:
        """Reserves the memory for planning a request of this size, and vectors beside, until the current task ends. Raises
        Overloaded."""
        size = PLAN_BYTES * request_bytes + VECTOR_COPIES * vector_bytes
        own, fits = self.of(client), self.total + size <= REQUESTS_BYTES
        if self.total and not (fits and own + size <= REQUESTS_BYTES // 2):
            message = (
                f"pending requests take {self.total} bytes, {own} of them for this client, and this server allows "
                f"{REQUESTS_BYTES}, half of it for one client; wait for their answers, or send fewer texts in a call"
            )
            raise self.refused(Overloaded(message, "REQUESTS_FULL", RETRY_SECONDS, limit=REQUESTS_BYTES))
        self.keep(client, size)
