"""Runs servers, each on a port that stays its own when it is restarted."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import bertscope
import psutil

from benchmarks.lib.processes import process, wait_until
from tools.deploy.programs import free_port

START_SECONDS = 120.0


class Member:
    """One of several servers. It loads its models only once it is let."""

    def __init__(self, folder: Path, number: int, flags: Sequence[str]) -> None:
        self._port = free_port()
        self._folder, self._number, self._flags, self._starts = folder, number, flags, 0
        self._running = ExitStack()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    @property
    def target(self) -> str:
        """Its address."""
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        """Starts its process. Returns when it listens. Raises RuntimeError."""
        self._starts += 1
        name = f"{self._number}-{self._starts}"
        ports, self._gate, log = (self._folder / f"{part}-{name}" for part in ("ports", "gate", "log"))
        places = ("--port", str(self._port), "--metrics-port", "0", "--port-file", str(ports))
        command = [sys.executable, "-m", "benchmarks.servers.late_server", *places, *self._flags]
        started: psutil.Process = self._running.enter_context(process(command, log, {"BENCH_GATE": str(self._gate)}))
        wait_until(ports.exists, START_SECONDS, started, log)

    def load(self) -> None:
        """Lets it load its models. Returns when it serves."""
        self._gate.touch()
        with bertscope.Client(self.target) as client:
            client.wait_until_serving(START_SECONDS)

    def stop(self) -> None:
        """Sends SIGTERM. Returns when its process has ended."""
        self._running.close()
