"""Runs Envoy with the configuration of deploy/envoy, on free ports, in front of running servers."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import yaml

CONFIGURATION = Path(__file__).parents[2] / "deploy" / "envoy" / "envoy.yaml"
PROGRAM = Path(sys.executable).with_name("envoy")
START_SECONDS = 60.0

_numbers = itertools.count()


def rendered(targets: Sequence[str], most_calls: int | None = None) -> str:
    """Returns the configuration for other servers, HOST:PORT each, on free ports; health is checked more often, to wait less.

    `most_calls` is the limit on short calls, that of the file for as many servers unless given.
    """
    configuration = yaml.safe_load(CONFIGURATION.read_text(encoding="utf-8"))
    resources = configuration["static_resources"]
    for place in (configuration["admin"], *resources["listeners"]):
        place["address"]["socket_address"]["port_value"] = 0
    (cluster,) = resources["clusters"]
    (check,) = cluster["health_checks"]
    check["interval"] = "0.2s"
    (group,) = cluster["load_assignment"]["endpoints"]
    limit = cluster["circuit_breakers"]["thresholds"][0]
    each = limit["max_requests"] // len(group["lb_endpoints"])
    limit["max_requests"] = each * len(targets) if most_calls is None else most_calls
    addresses = [target.split(":") for target in targets]
    group["lb_endpoints"] = [
        {"endpoint": {"address": {"socket_address": {"address": host, "port_value": int(port)}}}} for host, port in addresses
    ]
    return yaml.safe_dump(configuration)


class Envoy:
    """A running Envoy process; when this is entered, it has found every server healthy. Its output is in `folder`."""

    def __init__(self, folder: Path, targets: Sequence[str], most_calls: int | None = None) -> None:
        number = next(_numbers)
        self._admin = folder / f"envoy-admin-{number}.txt"
        self._output = folder / f"envoy-output-{number}.txt"
        configuration = folder / f"envoy-{number}.yaml"
        configuration.write_text(rendered(targets, most_calls), encoding="utf-8")
        flags = ("--config-path", configuration, "--admin-address-path", self._admin, "--concurrency", "1")
        with self._output.open("wb") as file:
            # Descriptors are named relative to the folder of the configuration; several Envoys on a machine need ids.
            command: list[str | Path] = [PROGRAM, *flags, "--use-dynamic-base-id"]
            self._popen = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, cwd=CONFIGURATION.parent)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self._stop)
            self._wait_until(self._listens)
            self._wait_until(lambda: all(self.health().values()))
            stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    @property
    def process_id(self) -> int:
        """The process's id."""
        return self._popen.pid

    @property
    def target(self) -> str:
        """The address at which callers reach the servers, HOST:PORT."""
        (listener,) = self._ask("listeners")["listener_statuses"]
        return f"127.0.0.1:{listener['local_address']['socket_address']['port_value']}"

    def health(self) -> dict[str, bool]:
        """Returns whether Envoy considers each server healthy, by its address."""
        (cluster,) = self._ask("clusters")["cluster_statuses"]
        return {
            "{address}:{port_value}".format(**host["address"]["socket_address"]): host["health_status"]
            == {"eds_health_status": "HEALTHY"}
            for host in cluster["host_statuses"]
        }

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + START_SECONDS
        while not condition():
            if self._popen.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"Envoy was not ready within {START_SECONDS:g} s:\n{self._output.read_text()}")
            time.sleep(0.01)

    def _listens(self) -> bool:
        """Returns whether it has written its addresses: the file appears before its content."""
        return self._admin.exists() and self._admin.read_text() != ""

    def _stop(self) -> None:
        self._popen.kill()
        self._popen.wait(30)

    def _ask(self, page: str) -> Any:
        with urllib.request.urlopen(f"http://{self._admin.read_text()}/{page}?format=json", timeout=10) as reply:
            return json.load(reply)
