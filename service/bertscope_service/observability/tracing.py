"""Defines the server's interface to tracing. It does not need OpenTelemetry, which is an extra."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeAlias

Metadata: TypeAlias = "Iterable[tuple[str, str | bytes]]"


class CallSpan(Protocol):
    """The span of one traced call."""

    @property
    def trace_id(self) -> str:
        """32 hexadecimal digits, for the log."""

    def end(self, code: str) -> None:
        """Ends the span with a status, "OK" or another name of a grpc.StatusCode."""


class Tracer(Protocol):
    """Makes the spans of calls."""

    def begin(self, path: str, metadata: Metadata, request_id: str) -> CallSpan | None:
        """Returns the span of a call to "/package.Service/Method" with the caller's metadata, or None if it is not traced.

        It is called on the task that answers the call: the engine records the call's times there.
        """

    async def close(self) -> None:
        """Sends the remaining spans, for a bounded time."""


class NoTracer:
    """Traces nothing."""

    def begin(self, path: str, metadata: Metadata, request_id: str) -> None:
        return None

    async def close(self) -> None:
        return None
