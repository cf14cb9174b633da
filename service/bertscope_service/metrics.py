"""What an operator watches. Base units (seconds, bytes); every label comes from a bounded set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, PlatformCollector, ProcessCollector
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

LATENCY_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300)
BATCH_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)

METRIC_NAMES = frozenset(
    {
        "bertscope_requests_total",
        "bertscope_request_seconds",
        "bertscope_requests_in_flight",
        "bertscope_queue_rows",
        "bertscope_queue_tokens",
        "bertscope_queue_seconds",
        "bertscope_queue_limit_tokens",
        "bertscope_batch_rows",
        "bertscope_batch_seconds",
        "bertscope_batch_tokens_total",
        "bertscope_batches_failed_total",
        "bertscope_device_broken",
        "bertscope_rows_dropped_total",
        "bertscope_rejected_total",
        "bertscope_models",
        "bertscope_model_weight_bytes",
        "bertscope_device_memory_bytes",
        "bertscope_build_info",
    }
)
"""All names of our own; dashboards and alerts are tested against it."""


class Metrics:
    """The metrics of one server, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        registry.register(_DeviceMemory())
        self.requests = Counter("bertscope_requests", "Calls that ended", ["method", "code"], registry=registry)
        self.request_seconds = Histogram(
            "bertscope_request_seconds",
            "Time from a call's arrival to its end",
            ["method"],
            buckets=LATENCY_SECONDS,
            registry=registry,
        )
        self.in_flight = Gauge("bertscope_requests_in_flight", "Calls at work", ["method"], registry=registry)
        self.queue_rows = Gauge("bertscope_queue_rows", "Rows that wait for a device", ["device"], registry=registry)
        self.queue_tokens = Gauge("bertscope_queue_tokens", "Tokens that wait for a device", ["device"], registry=registry)
        self.queue_seconds = Gauge(
            "bertscope_queue_seconds", "Time that what waits is expected to take", ["device"], registry=registry
        )
        self.queue_limit_tokens = Gauge(
            "bertscope_queue_limit_tokens", "Most tokens that may wait", ["device"], registry=registry
        )
        self.batch_rows = Histogram(
            "bertscope_batch_rows", "Rows in a batch", ["device"], buckets=BATCH_ROWS, registry=registry
        )
        self.batch_seconds = Histogram(
            "bertscope_batch_seconds", "Time a batch took", ["device"], buckets=LATENCY_SECONDS, registry=registry
        )
        self.batch_tokens = Counter(
            "bertscope_batch_tokens", "Tokens that ran, real ones and padding", ["device", "kind"], registry=registry
        )
        self.batches_failed = Counter(
            "bertscope_batches_failed", "Batches, and parts of them run again, that failed", ["device"], registry=registry
        )
        self.device_broken = Gauge(
            "bertscope_device_broken", "1 once a device has failed for good", ["device"], registry=registry
        )
        self.rows_dropped = Counter(
            "bertscope_rows_dropped", "Rows that nobody waited for any more", ["reason"], registry=registry
        )
        self.rejected = Counter("bertscope_rejected", "Calls turned away unheard", ["reason"], registry=registry)
        self.models = Gauge("bertscope_models", "Models by state", ["state"], registry=registry)
        self.model_weight_bytes = Gauge(
            "bertscope_model_weight_bytes", "Size of a loaded model's weight files", ["model"], registry=registry
        )
        self.build_info = Gauge("bertscope_build_info", "Always 1; the version is a label", ["version"], registry=registry)


class MethodMetrics:
    """What is counted of one method's calls. Its children are looked up once: each look-up takes microseconds."""

    def __init__(self, metrics: Metrics, method: str) -> None:
        self._requests = metrics.requests
        self._method = method
        self._in_flight = metrics.in_flight.labels(method)
        self._seconds = metrics.request_seconds.labels(method)
        self._ended: dict[str, Counter] = {}

    def began(self) -> None:
        """A call is at work."""
        self._in_flight.inc()

    def ended(self, code: str, seconds: float) -> None:
        """A call ended with a status, so long after it came."""
        self._in_flight.dec()
        self._seconds.observe(seconds)
        ended = self._ended.get(code)
        if ended is None:
            ended = self._ended[code] = self._requests.labels(self._method, code)
        ended.inc()


class _DeviceMemory(Collector):
    """Memory that PyTorch holds on each GPU, read when somebody asks."""

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily("bertscope_device_memory_bytes", "Memory PyTorch holds on a GPU", labels=["device"])
        for index in self._devices():
            family.add_metric([f"cuda:{index}"], torch.cuda.memory_reserved(index))
        yield family

    @staticmethod
    def _devices() -> Iterator[int]:
        # Asking for a count before CUDA is used would start it, which costs memory and seconds.
        if torch.cuda.is_initialized():
            yield from range(torch.cuda.device_count())
