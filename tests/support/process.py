"""A server in a process of its own."""

import itertools
import json
import os
import subprocess
import sys
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.support.forked import Forked
from tests.support.patience import granted, wait_until
from tests.support.stubs import Stubs

START_SECONDS = granted(90.0)
"""Importing PyTorch takes a while on a busy machine."""

_numbers = itertools.count()


class Process(Stubs):
    """`python -m bertscope_service` on free ports, its output in a file; forked, unless libraries read the variables given."""

    def __init__(self, folder: Path, *flags: str, **environment: str) -> None:
        number = next(_numbers)
        self.port_file = folder / f"ports-{number}.json"
        self.output = folder / f"output-{number}.txt"
        given = ("--port", "0", "--metrics-port", "0", "--threads", "1", "--port-file", str(self.port_file), *flags)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("BERTSCOPE_")}
        # Exporting a model takes seconds: those who want it say so, and it is done once.
        clean = kept | {"BERTSCOPE_RUNTIME": "torch", "BERTSCOPE_CACHE_FOLDER": os.environ["BERTSCOPE_CACHE_FOLDER"]}
        # A killed server leaves its temporary folders behind.
        clean |= {"HF_HUB_OFFLINE": "1", "TMPDIR": str(folder)}
        self.popen: subprocess.Popen[bytes] | Forked
        if any(not name.startswith("BERTSCOPE_") for name in environment):
            with self.output.open("wb") as file:
                command = [sys.executable, "-m", "bertscope_service", *given]
                self.popen = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=clean | environment)
        else:
            self.output.touch()  # it may be read before the process writes
            self.popen = Forked(given, clean | environment, self.output)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if "channel" in vars(self):
            self.channel.close()
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait(granted(30))

    @property
    def text(self) -> str:
        """All it wrote so far."""
        return self.output.read_text()

    @property
    def ports(self) -> dict[str, int]:
        """Its ports, as soon as it listens."""
        wait_until(lambda: self.port_file.exists() or self.popen.poll() is not None, "the server listens")
        assert self.port_file.exists(), self.text
        ports: dict[str, int] = json.loads(self.port_file.read_text())
        return ports

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.ports['port']}"

    @cached_property
    def channel(self) -> grpc.Channel:
        return grpc.insecure_channel(self.target)

    def health(self) -> int:
        stub: Any = health_pb2_grpc.HealthStub(self.channel)
        return int(stub.Check(health_pb2.HealthCheckRequest(), timeout=granted(10)).status)

    def wait_until_serving(self) -> None:
        wait_until(lambda: self.popen.poll() is not None or self._serves(), "the server serves")
        assert self.popen.poll() is None, self.text

    def _serves(self) -> bool:
        try:
            return self.health() == health_pb2.HealthCheckResponse.SERVING
        except grpc.RpcError:
            return False  # it listens no more

    def end(self, timeout: float = START_SECONDS) -> int:
        """Wait for its end; its exit status."""
        return self.popen.wait(timeout)
