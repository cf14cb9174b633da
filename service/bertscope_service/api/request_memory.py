"""Limits of the memory for large requests, as they came and as they are planned: for all together, and for one client."""

from __future__ import annotations

from contextvars import ContextVar

from google.protobuf.message import Message

from bertscope_service.api.reply_memory import HeldMemory
from bertscope_service.errors import Overloaded
from bertscope_service.models.freed_memory import FreedMemory
from bertscope_service.observability.metrics import Metrics

PLAN_BYTES = 24
"""Memory that the plan of a request takes for each of its bytes, approximately: a labelled span of 9 bytes becomes some objects
of Python."""

PARSED_BYTES = 4
"""Memory for each byte of a request while it is parsed: as it came, and as a message."""

VECTOR_COPIES = 4
"""Copies of the large vectors of a request: as they came, as they are checked, in float64 to be centred."""

REQUESTS_BYTES = 512 * 1024 * 1024
"""Maximum size of the plans of all large requests. A single one always fits."""

RETRY_SECONDS = 2.0

received: ContextVar[int] = ContextVar("received", default=0)
"""The bytes of the current call's request, as it came; 0 if it came otherwise."""


def request_bytes(request: Message) -> int:
    """Returns the size of a request. Protobuf would write a message to know it: a tenth of a second for many entries."""
    return received.get() or request.ByteSize()


class RequestMemory(HeldMemory):
    """Counts the memory of large requests from before they are parsed until they are answered.

    A client may have half of it. Belongs to the event loop.
    """

    def __init__(self, metrics: Metrics, freed: FreedMemory | None = None) -> None:
        super().__init__(metrics, "requests_full", freed)

    def receive(self, client: str, received_bytes: int) -> None:
        """Reserves the memory for parsing a request, until it is planned or the current task ends. Raises Overloaded."""
        self._reserve(client, PARSED_BYTES * received_bytes)

    def hold(self, client: str, request_bytes: int, vector_bytes: int = 0) -> None:
        """Reserves the memory for planning a request of this size, and vectors beside, until the current task ends. Raises
        Overloaded."""
        self._reserve(client, PLAN_BYTES * request_bytes + VECTOR_COPIES * vector_bytes)

    def _reserve(self, client: str, size: int) -> None:
        held = self.held()
        own, others = self.of(client) - held, self.total - held
        if others and not (others + size <= REQUESTS_BYTES and own + size <= REQUESTS_BYTES // 2):
            message = (
                f"pending requests take {others} bytes, {own} of them for this client, and this server allows "
                f"{REQUESTS_BYTES}, half of it for one client; wait for their answers, or send fewer texts in a call"
            )
            self._free(size)
            raise self.refused(Overloaded(message, "REQUESTS_FULL", RETRY_SECONDS, limit=REQUESTS_BYTES))
        self.keep(client, size - held)
