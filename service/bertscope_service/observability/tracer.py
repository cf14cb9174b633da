"""Chooses the tracer of a server."""

from __future__ import annotations

from bertscope_service.errors import FailedPrecondition
from bertscope_service.observability.tracing import NoTracer, Tracer


def make_tracer(endpoint: str, ratio: float, version: str) -> Tracer:
    """Returns a tracer that sends spans to an OTLP endpoint ("http://HOST:PORT", gRPC), for a share `ratio` of the calls whose
    callers don't decide; an empty endpoint means none. Raises FailedPrecondition if the extra is not installed."""
    if not endpoint:
        return NoTracer()
    try:
        from bertscope_service.observability.otlp import OtlpTracer
    except ImportError as error:
        packages = "opentelemetry-sdk opentelemetry-exporter-otlp-proto-grpc"
        message = f"--trace-endpoint needs OpenTelemetry, which is not installed; pip install {packages}"
        raise FailedPrecondition(message, "TRACING_NOT_INSTALLED") from error
    return OtlpTracer(endpoint, ratio, version)
