"""An OTLP collector, as far as traces go."""

import threading
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.patience import granted, wait_until


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """Keeps the spans it gets."""

    def __init__(self) -> None:
        self.endpoint = ""
        self.resources: list[dict[str, Any]] = []
        self._spans: list[Span] = []
        self._lock = threading.Lock()

    def Export(self, request: Any, context: Any) -> Any:
        with self._lock:
            for group in request.resource_spans:
                self.resources.append(values(group.resource.attributes))
                self._spans += [span for scope in group.scope_spans for span in scope.spans]
        return trace_service_pb2.ExportTraceServiceResponse()

    def spans(self, trace_id: str) -> list[Span]:
        """Those of a trace that came so far."""
        with self._lock:
            return [span for span in self._spans if span.trace_id.hex() == trace_id]

    def calls(self, trace_id: str, count: int = 1) -> list[Span]:
        """The server's spans of a trace with so many calls, as soon as they are here."""

        def found() -> list[Span]:
            return [span for span in self.spans(trace_id) if span.kind == Span.SPAN_KIND_SERVER]

        wait_until(lambda: len(found()) >= count, f"{count} calls of the trace are here")
        return found()

    def call(self, trace_id: str) -> tuple[Span, list[Span]]:
        """The server's span of a trace with one call, as soon as it is here, and those below it."""
        (root,) = self.calls(trace_id)
        # All spans of a call are made when it ends, its own last, and are sent in this order.
        return root, [span for span in self.spans(trace_id) if span is not root]


def values(attributes: Any) -> dict[str, Any]:
    """Attributes by name."""
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in attributes}


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector that listens on a free port."""
    collector, server = Collector(), grpc.server(futures.ThreadPoolExecutor(2))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(collector, server)
    collector.endpoint = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield collector
    finally:
        server.stop(0).wait(granted(10))
