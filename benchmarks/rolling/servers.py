"""Runs two servers, each on a port that stays its own when it is restarted."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Self

import bertscope

from benchmarks.peers.processes import process

START_SECONDS = 120.0
LOOK_SECONDS = 0.05


class Member:
    """One of several servers. It loads its models only once it is let."""

    def __init__(self, folder: Path, number: int, flags: Sequence[str]) -> None:
        with closing(socket.create_server(("127.0.0.1", 0))) as free:
            self._port = free.getsockname()[1]
        self._folder, self._number, self._flags, self._starts = folder, number, flags, 0
        self._running = ExitStack()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        """Starts its process."""
        self._starts += 1
        name = f"{self._number}-{self._starts}"
        self._ports, self._gate, self._log = (self._folder / f"{part}-{name}" for part in ("ports", "gate", "log"))
        places = ("--port", str(self._port), "--metrics-port", "0", "--port-file", str(self._ports))
        command = [sys.executable, "-m", "benchmarks.rolling.late_server", *places, *self._flags]
        self._running.enter_context(process(command, self._log, {"BENCH_GATE": str(self._gate)}))

    def wait_until_listening(self) -> None:
        """Returns when it listens. Raises TimeoutError."""
        limit = time.monotonic() + START_SECONDS
        while not self._ports.exists():
            if time.monotonic() > limit:
                raise TimeoutError(f"the server did not listen within {START_SECONDS:g} s:\n{self._log.read_text()}")
            time.sleep(LOOK_SECONDS)

    def load(self) -> None:
        """Lets it load its models. Returns when it serves."""
        self._gate.touch()
        with bertscope.Client(self.target) as client:
            client.wait_until_serving(START_SECONDS)

    def stop(self) -> None:
        """Sends SIGTERM. Returns when its process has ended."""
        self._running.close()
