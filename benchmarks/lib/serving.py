"""Runs a bertscope server as a separate process, as users do."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import bertscope
import psutil
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

START_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Running:
    """A running server: its addresses, and its process."""

    target: str
    metrics_url: str
    process: psutil.Process

    def resident_bytes(self) -> int:
        return int(self.process.memory_info().rss)

    def metric(self, name: str, **labels: str) -> float:
        """Returns the sum of a metric over all label sets that contain `labels`."""
        return sum(sample.value for sample in self._samples(name) if labels.items() <= sample.labels.items())

    def buckets(self, name: str) -> dict[str, float]:
        """Returns the counts of a histogram without labels up to each of its bounds, in their order."""
        return {sample.labels["le"]: sample.value for sample in self._samples(f"{name}_bucket")}

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
        process = subprocess.Popen([*command, "--port-file", str(port_file), *flags])
        try:
            ports = _wait_for_ports(process, port_file)
            target = f"127.0.0.1:{ports['port']}"
            with bertscope.Client(target, tls=tls) as client:
                client.wait_until_serving(START_SECONDS)
            yield Running(target, f"http://127.0.0.1:{ports['metrics_port']}/metrics", psutil.Process(process.pid))
        finally:
            process.terminate()
            process.wait()


def _wait_for_ports(process: subprocess.Popen[bytes], port_file: Path) -> dict[str, int]:
    began = time.monotonic()
    while not port_file.exists():
        _check(process, began)
        time.sleep(0.05)
    ports: dict[str, int] = json.loads(port_file.read_text())
    return ports


def _check(process: subprocess.Popen[bytes], began: float) -> None:
    if process.poll() is not None:
        raise RuntimeError(f"the server ended with status {process.returncode}")
    if time.monotonic() - began > START_SECONDS:
        raise TimeoutError(f"the server was not ready within {START_SECONDS} s")
