"""What the server knows of tracing. Nothing here needs OpenTelemetry, which is an extra."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeAlias

from bertscope_service.errors import FailedPrecondition

Metadata: TypeAlias = "Iterable[tuple[str, str | bytes]]"


class CallSpan(Protocol):
    """The span of one call that is traced."""

    @property
    def trace_id(self) -> str:
        """32 hexadecimal digits, for the log."""

    def end(self, code: str) -> None:
        """The call ended with a status, "OK" or another name of a grpc.StatusCode."""


class Tracer(Protocol):
    """Makes the spans of calls."""

    def begin(self, path: str, metadata: Metadata, request_id: str) -> CallSpan | None:
        """A call came: "/package.Service/Method", with what its caller sent; None if it is not traced.

        On the task that answers the call: the engine notes there where the time goes.
        """

    async def close(self) -> None:
        """Send what was not sent yet, for a bounded time."""


class NoTracer:
    """Traces nothing."""

    def begin(self, path: str, metadata: Metadata, request_id: str) -> None:
        return None

    async def close(self) -> None:
        return None


def make_tracer(endpoint: str, ratio: float, version: str) -> Tracer:
    """Sends spans to an OTLP endpoint ("http://HOST:PORT", gRPC), of so large a share of the calls whose callers don't decide
    themselves; an empty endpoint means none. Raises FailedPrecondition if the extra is not installed."""
    if not endpoint:
        return NoTracer()
    try:
        from bertscope_service.tracing.otlp import OtlpTracer
    except ImportError as error:
        message = "--trace-endpoint needs OpenTelemetry, which is not installed; pip install 'bertscope-service[otel]'"
        raise FailedPrecondition(message, "TRACING_NOT_INSTALLED") from error
    return OtlpTracer(endpoint, ratio, version)
