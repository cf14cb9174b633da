"""A Ray cluster on this machine, with a configuration of Ray Serve."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Self

import bertscope
import psutil
import yaml

from benchmarks.peers.processes import free_port

DRIVER = "benchmarks.ray_serve.driver"
ROOT = Path(__file__).parents[2]
CONFIGURATION = ROOT / "deploy" / "ray" / "serve.yaml"
START_SECONDS = 150.0
STARTS = 3
"""One can fail: somebody else may take a port before Ray does."""

STOP_SECONDS = 30.0


class Cluster:
    """The configuration of `deploy/ray` on free ports. Everything that it starts is gone when it is closed."""

    def __init__(self, folder: Path, configuration: dict[str, Any], *, cpus: int = 4, **environment: str) -> None:
        self.output = folder / "ray.txt"
        self._path = folder / "serve.yaml"
        self._configuration = configuration
        # Names of Unix sockets are short, and those of a test's folder are not.
        self._temporary = tempfile.mkdtemp(prefix="ray-")
        settings = {
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_TMPDIR": self._temporary,
            "RAY_DEDUP_LOGS": "0",
            # An agent may be slow where other work has the cores.
            "RAY_agent_register_timeout_ms": "120000",
            # What killed replicas leave behind goes with the rest.
            "TMPDIR": self._temporary,
            # Its nodes know each other by it; else Ray would write one into the user's home.
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
        }
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("BERTSCOPE_", "RAY_"))}
        self._environment = kept | settings | environment
        self._command = [sys.executable, "-m", DRIVER, str(self._path), str(cpus)]
        self._driver = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        """On ports that are free now."""
        self.port = self._configuration["grpc_options"]["port"] = free_port()
        self._configuration["http_options"]["port"] = free_port()
        self._path.write_text(yaml.safe_dump(self._configuration), encoding="utf-8")
        with self.output.open("ab") as file:
            streams: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": file, "stderr": subprocess.STDOUT}
            return subprocess.Popen(self._command, **streams, env=self._environment, cwd=ROOT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def text(self) -> str:
        """All that its processes wrote so far."""
        return self.output.read_text(encoding="utf-8", errors="replace")

    def wait_until_serving(self) -> None:
        """Come back when all models can be asked. Raises RuntimeError if that takes too long."""
        limit = time.monotonic() + START_SECONDS
        starts = 1
        while time.monotonic() < limit:
            with bertscope.Client(self.target) as client, contextlib.suppress(bertscope.BertscopeError):
                client.wait_until_serving(5.0)
                return
            if self._driver.poll() is not None:
                if starts == STARTS:
                    break
                starts += 1
                self._driver = self._start()
        raise RuntimeError(f"the cluster does not serve:\n{self.text}")

    def replicas(self, deployment: str) -> list[psutil.Process]:
        """The processes of a deployment's replicas that run now."""
        return [one for one in self.processes() if _title(one).startswith(f"ray::ServeReplica:bertscope:{deployment}")]

    def processes(self) -> list[psutil.Process]:
        """All that it has started and that runs now."""
        try:
            return psutil.Process(self._driver.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def stop(self) -> list[psutil.Process]:
        """End it; what did not end by itself, and had to be killed. Nothing the second time."""
        started = self.processes()
        try:
            self._driver.communicate(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._driver.kill()
            self._driver.wait()
        _, left = psutil.wait_procs(started, timeout=STOP_SECONDS)
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=STOP_SECONDS)
        shutil.rmtree(self._temporary, ignore_errors=True)
        return left


def read_configuration() -> dict[str, Any]:
    """The configuration that we ship."""
    configuration: dict[str, Any] = yaml.safe_load(CONFIGURATION.read_text(encoding="utf-8"))
    return configuration


def _title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""  # it has just ended
