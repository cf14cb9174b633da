"""Runs a bertscope server as a separate process, as users do."""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import bertscope
import psutil
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from benchmarks.lib.background import beside
from benchmarks.lib.processes import process, wait_until

START_SECONDS = 300.0
SAMPLE_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Running:
    """A running server: its addresses, its process, and the seconds from its start until it was bound and until it served."""

    target: str
    metrics_url: str
    process: psutil.Process
    bound_seconds: float
    serving_seconds: float

    def resident_bytes(self) -> int:
        """Returns the memory of the process."""
        return int(self.process.memory_info().rss)

    @contextlib.contextmanager
    def peak(self) -> Iterator[list[int]]:
        """Yields a list of the highest memory meanwhile, bytes."""
        found = [self.resident_bytes()]

        def watch(begun: threading.Event, over: threading.Event) -> None:
            begun.set()
            while not over.wait(SAMPLE_SECONDS):
                found[0] = max(found[0], self.resident_bytes())

        with beside(watch):
            yield found

    def metric(self, name: str, **labels: str) -> float:
        """Returns the sum of a metric over all label sets that contain `labels`."""
        return sum(sample.value for sample in self._samples(name) if labels.items() <= sample.labels.items())

    def buckets(self, name: str) -> dict[str, float]:
        """Returns the counts of a histogram without labels up to each of its bounds, in their order."""
        return {sample.labels["le"]: sample.value for sample in self._samples(f"{name}_bucket")}

    def batches(self) -> tuple[float, float]:
        """Returns the seconds of all batches so far, and their number."""
        name = "bertscope_batch_seconds"
        return self.metric(f"{name}_sum"), self.metric(f"{name}_count")

    def tokens(self) -> tuple[float, float]:
        """Returns the tokens that ran so far, without padding, and the padding."""
        name = "bertscope_batch_tokens_total"
        return self.metric(name, kind="real"), self.metric(name, kind="padding")

    def _samples(self, name: str) -> Iterator[Sample]:
        with urllib.request.urlopen(self.metrics_url) as page:
            families = list(text_string_to_metric_families(page.read().decode()))
        return (sample for family in families for sample in family.samples if sample.name == name)


@contextlib.contextmanager
def serving(*flags: str, tls: bertscope.Tls | None = None, module: str = "bertscope_service") -> Iterator[Running]:
    """Runs a server with some flags on free ports, called with `tls`; it is ready when this enters, and gone when it leaves.

    `module` is the Python module to run, for another server.
    """
    with tempfile.TemporaryDirectory() as folder:
        port_file = Path(folder) / "ports.json"
        command = [sys.executable, "-m", module, "--port", "0", "--metrics-port", "0", "--log-level", "warning"]
        began = time.monotonic()
        with process([*command, "--port-file", str(port_file), *flags]) as started:
            wait_until(port_file.exists, START_SECONDS, started)
            bound = time.monotonic() - began
            ports = json.loads(port_file.read_text())
            target = f"127.0.0.1:{ports['port']}"
            with bertscope.Client(target, tls=tls) as client:
                client.wait_until_serving(START_SECONDS)
            metrics = f"http://127.0.0.1:{ports['metrics_port']}/metrics"
            yield Running(target, metrics, psutil.Process(started.pid), bound, time.monotonic() - began)
