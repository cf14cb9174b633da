"""Sends spans to an OpenTelemetry collector by OTLP over gRPC.

A call is a span of kind server, named and labelled after the semantic conventions for gRPC
(https://opentelemetry.io/docs/specs/semconv/rpc/grpc), below the caller's span if a W3C `traceparent` came with it. Below it
are `queue`, for the time that its rows waited, and `batch`, for each batch they ran in, with `forward` and `reduce`. Spans
carry names, numbers and the request id, never users' input.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
import uuid

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, format_trace_id, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from bertscope_service.observability import timeline
from bertscope_service.observability.timeline import BatchRun, Timeline
from bertscope_service.observability.tracing import Metadata

FLUSH_SECONDS = 2.0
"""The longest time that a collector that does not answer delays the server's end."""

CONTEXT_HEADERS = frozenset({"traceparent", "tracestate"})

SERVER_ERRORS = frozenset({"UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"})
"""The codes that the conventions count as errors of the server; all others are errors of the caller."""


class OtlpTracer:
    """Decides which calls are traced: as their callers decided, else a random share of them."""

    def __init__(self, endpoint: str, ratio: float, version: str) -> None:
        """`endpoint` is http://HOST:PORT or https://HOST:PORT. OTEL_RESOURCE_ATTRIBUTES, OTEL_EXPORTER_OTLP_HEADERS,
        OTEL_BSP_* and the like are read by OpenTelemetry itself."""
        ours = {"service.name": "bertscope", "service.version": version, "service.instance.id": str(uuid.uuid4())}
        self._provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(ratio)),
            resource=Resource.create(ours).merge(OTELResourceDetector().detect()),
            shutdown_on_exit=False,
        )
        # Lost spans are logged, once in 20 s. Retries would be logged for as long as a collector is gone.
        logging.getLogger("opentelemetry.exporter").setLevel(logging.ERROR)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint)))
        self._tracer = self._provider.get_tracer("bertscope_service", version)
        self._propagator = TraceContextTextMapPropagator()

    def begin(self, path: str, metadata: Metadata, request_id: str) -> OtlpCallSpan | None:
        """Returns the span of a call that begins now, or None if it is not traced; its timeline becomes the current one."""
        carrier = {name: value for name, value in metadata if name in CONTEXT_HEADERS and isinstance(value, str)}
        parent = self._propagator.extract(carrier)
        method = path.removeprefix("/")
        attributes = {"rpc.system.name": "grpc", "rpc.method": method, "bertscope.request_id": request_id}
        span = self._tracer.start_span(method, parent, SpanKind.SERVER, attributes)
        if not span.is_recording():
            return None
        notes = Timeline()
        timeline.current.set(notes)
        return OtlpCallSpan(self._tracer, span, notes)

    async def close(self) -> None:
        """Sends the remaining spans, for at most FLUSH_SECONDS."""
        loop, sent = asyncio.get_running_loop(), asyncio.Event()

        def send() -> None:
            self._provider.shutdown()
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(sent.set)

        # A daemon thread, for a shutdown can't be interrupted.
        threading.Thread(target=send, name="bertscope-traces", daemon=True).start()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(sent.wait(), FLUSH_SECONDS)


class OtlpCallSpan:
    """A traced call. The spans below it are made when it has ended: before, only times are recorded."""

    def __init__(self, tracer: Tracer, span: Span, notes: Timeline) -> None:
        self._tracer = tracer
        self._span = span
        self._notes = notes
        self._context = set_span_in_context(span)
        self._epoch = time.time_ns() - time.perf_counter_ns()

    @property
    def trace_id(self) -> str:
        return format_trace_id(self._span.get_span_context().trace_id)

    def end(self, code: str) -> None:
        for wait in self._notes.waits:
            self._below(self._context, "queue", wait.began, wait.ended)
        for batch in self._notes.batches:
            self._batch(batch)
        self._span.set_attributes({"rpc.response.status_code": code, "bertscope.batches": self._notes.batch_count})
        if code != "OK":
            self._span.set_attribute("error.type", code)
        if code in SERVER_ERRORS:
            self._span.set_status(Status(StatusCode.ERROR))
        # By the same clock as its parts: the other clock may have been set meanwhile.
        self._span.end(self._time(time.perf_counter()))

    def _batch(self, batch: BatchRun) -> None:
        attributes: dict[str, str | int] = {
            "bertscope.device": batch.device,
            "bertscope.batch.rows": batch.rows,
            "bertscope.batch.own_rows": batch.own_rows,
            "bertscope.batch.tokens": batch.tokens,
            "bertscope.batch.padding_tokens": batch.padding_tokens,
        }
        span = self._tracer.start_span("batch", self._context, attributes=attributes, start_time=self._time(batch.began))
        context = set_span_in_context(span)
        self._below(context, "forward", batch.began, batch.advanced)
        self._below(context, "reduce", batch.advanced, batch.ended)
        span.end(self._time(batch.ended))

    def _below(self, context: Context, name: str, began: float, ended: float) -> None:
        self._tracer.start_span(name, context, start_time=self._time(began)).end(self._time(ended))

    def _time(self, moment: float) -> int:
        """Converts a time.perf_counter() to nanoseconds since 1970."""
        return self._epoch + round(moment * 1e9)
