"""Defines the Prometheus metrics. They use base units (seconds, bytes), and every label comes from a bounded set."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)

LATENCY_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300)
LOAD_SECONDS = (0.5, 1, 2, 5, 10, 20, 60, 120, 300, 600, 1800)
LOOP_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30)
BATCH_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Metrics:
    """The metrics of one server, in a registry of their own."""

    def __init__(self) -> None:
        # The creation times of the series are half of the page, and Prometheus does not use them.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        times = partial(Histogram, registry=registry, buckets=LATENCY_SECONDS)

        self.requests = counter("bertscope_requests", "Calls that ended", ["method", "code"])
        self.request_seconds = times("bertscope_request_seconds", "Time from a call's arrival to its end", ["method"])
        self.in_flight = gauge("bertscope_requests_in_flight", "Running calls", ["method"])
        self.received_bytes = counter("bertscope_received_bytes", "Bytes of requests, before compression", ["method"])
        self.sent_bytes = counter("bertscope_sent_bytes", "Bytes of replies, before compression", ["method"])
        malformed = "What came and could not be read, by what it was"
        self.malformed = counter("bertscope_malformed", malformed, ["part"])
        self.rejected = counter("bertscope_rejected", "Calls rejected before they ran", ["reason"])

        self.export_cache_bytes = gauge("bertscope_export_cache_bytes", "Size of all exported graphs in the cache folder")
        self.queue_rows = gauge("bertscope_queue_rows", "Rows that wait for a device", ["device"])
        self.queue_tokens = gauge("bertscope_queue_tokens", "Tokens that wait for a device", ["device"])
        self.queue_limit_tokens = gauge("bertscope_queue_limit_tokens", "Most tokens that may wait", ["device"])
        self.queue_seconds = gauge("bertscope_queue_seconds", "Time that what waits is expected to take", ["device"])
        waits = "Time from a job's arrival in the queue to its first batch"
        self.queue_wait_seconds = times("bertscope_queue_wait_seconds", waits, ["device", "priority"])
        self.rows_dropped = counter("bertscope_rows_dropped", "Rows that nobody waited for any more", ["reason"])

        self.batch_rows = Histogram(
            "bertscope_batch_rows", "Rows in a batch", ["device"], buckets=BATCH_ROWS, registry=registry
        )
        self.batch_seconds = times("bertscope_batch_seconds", "Time a batch took", ["device"])
        self.batch_tokens = counter("bertscope_batch_tokens", "Tokens that ran, real ones and padding", ["device", "kind"])
        failures = "Batches, and parts of them run again, that failed"
        self.batches_failed = counter("bertscope_batches_failed", failures, ["device"])
        self.device_broken = gauge("bertscope_device_broken", "1 once a device has failed for good", ["device"])
        stalls = "1 while a device runs a batch for much longer than such batches take"
        self.device_stalled = gauge("bertscope_device_stalled", stalls, ["device"])
        self.device_lent = gauge("bertscope_device_lent", "1 while a benchmark has a device to itself", ["device"])

        self.loop_delay_seconds = Histogram(
            "bertscope_event_loop_delay_seconds",
            "How late the event loop was, ten times a second",
            buckets=LOOP_SECONDS,
            registry=registry,
        )
        self.serving = gauge("bertscope_serving", "1 while health says SERVING")
        self.models = gauge("bertscope_models", "Models by state", ["state"])
        self.model_weight_bytes = gauge("bertscope_model_weight_bytes", "Size of a loaded model's weight files", ["model"])
        self.model_calls = counter("bertscope_model_calls", "Calls that a model was asked in", ["model"])
        loads = "Time to load or make a model, first run included, by how it ended"
        self.model_load_seconds = Histogram(
            "bertscope_model_load_seconds", loads, ["outcome"], buckets=LOAD_SECONDS, registry=registry
        )
        for outcome in ("ready", "failed", "abandoned"):
            # Starts at 0: Prometheus can't see the increase of a series that begins with 1.
            self.model_load_seconds.labels(outcome)

        failing = "1 while a file that changed can't be used, and what it was stays in force"
        self.reload_failing = gauge("bertscope_reload_failing", failing, ["file"])
        ends = "When a certificate that is in force expires, seconds since 1970"
        self.certificate_expiry = gauge("bertscope_certificate_expiry_timestamp_seconds", ends, ["file"])
        self.build_info = gauge("bertscope_build_info", "Always 1; the version is a label", ["version"])

    @contextmanager
    def timed_load(self) -> Iterator[None]:
        """Times the loading of a model, and notes its outcome."""
        began, outcome = time.perf_counter(), "failed"
        try:
            yield
            outcome = "ready"
        except asyncio.CancelledError:
            outcome = "abandoned"
            raise
        finally:
            self.model_load_seconds.labels(outcome).observe(time.perf_counter() - began)


class MethodMetrics:
    """Counts the calls of one method. Its children are looked up once: each look-up takes microseconds."""

    def __init__(self, metrics: Metrics, method: str) -> None:
        self._requests = metrics.requests
        self._method = method
        self._in_flight = metrics.in_flight.labels(method)
        self._seconds = metrics.request_seconds.labels(method)
        self._received = metrics.received_bytes.labels(method)
        self._sent = metrics.sent_bytes.labels(method)
        self._ended: dict[str, Counter] = {}

    def began(self) -> None:
        """Counts a call that begins."""
        self._in_flight.inc()

    def received(self, message: bytes) -> None:
        """Counts a request."""
        self._received.inc(len(message))

    def sent(self, message: bytes) -> bytes:
        """Counts a reply and returns it."""
        self._sent.inc(len(message))
        return message

    def ended(self, code: str, seconds: float) -> None:
        """Counts a call that ended with a status, `seconds` after its arrival."""
        self._in_flight.dec()
        self._seconds.observe(seconds)
        ended = self._ended.get(code)
        if ended is None:
            ended = self._ended[code] = self._requests.labels(self._method, code)
        ended.inc()
