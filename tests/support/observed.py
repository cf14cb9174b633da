"""What can be seen of a server process from outside: its metrics, and what clients get that ask it without pause."""

import threading
import urllib.request
from collections.abc import Callable
from typing import Any

import bertscope
import grpc
from prometheus_client.parser import text_string_to_metric_families

from tests.support.patience import granted
from tests.support.process import Process


def metric(process: Process, name: str, **labels: str) -> float:
    """A sample of the server's metrics now, 0 if there is none."""
    with urllib.request.urlopen(f"http://127.0.0.1:{process.ports['metrics_port']}/metrics", timeout=granted(10)) as page:
        families = list(text_string_to_metric_families(page.read().decode()))
    found = (sample for family in families for sample in family.samples if sample.name == name and sample.labels == labels)
    return next((sample.value for sample in found), 0.0)


class Asker:
    """A thread that asks one thing over and over; the answers, and the errors."""

    def __init__(self, ask: Callable[[], Any]) -> None:
        self._ask = ask
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.answers: list[Any] = []
        self.errors: list[Exception] = []
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(granted(60))
        assert not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.answers.append(self._ask())
            except (grpc.RpcError, bertscope.BertscopeError) as error:
                self.errors.append(error)
                self._stop.wait(0.01)  # a port that refuses connections is asked no more often
