"""Runs a Ray cluster on this machine, with a configuration of Ray Serve."""

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

from tools.deploy.programs import free_port

DRIVER = "tools.deploy.ray_driver"
ROOT = Path(__file__).parents[2]
CONFIGURATION = ROOT / "deploy" / "ray" / "serve.yaml"
START_SECONDS = 300.0
STARTS = 5
"""A start can fail: another process may take a port before Ray does, and Ray waits at most 30 s for its node."""

STOP_SECONDS = 120.0
"""Ray waits for its replicas and workers one after the other; on a busy machine that takes a while."""


class Cluster:
    """The configuration of `deploy/ray` on free ports. All its processes are gone when it is closed."""

    def __init__(self, folder: Path, configuration: dict[str, Any], *, cpus: int = 4, **environment: str) -> None:
        self.output = folder / "ray.txt"
        self._path = folder / "serve.yaml"
        self._configuration = configuration
        # Names of Unix sockets must be short, and a test's folder has a long name.
        self._temporary = tempfile.mkdtemp(prefix="ray-")
        settings = {
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_TMPDIR": self._temporary,
            "RAY_DEDUP_LOGS": "0",
            # Agents, workers and replicas may be slow to start on a busy machine; Ray's own limits are short.
            "RAY_agent_register_timeout_ms": "240000",
            "RAY_worker_register_timeout_seconds": "240",
            # Files of killed replicas are removed with the folder.
            "TMPDIR": self._temporary,
            # Its nodes authenticate each other with the token; else Ray would write one into the user's home.
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
        }
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("BERTSCOPE_", "RAY_"))}
        self._environment = kept | settings | environment
        self._command = [sys.executable, "-m", DRIVER, str(self._path), str(cpus)]
        self._driver = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        """Starts the cluster on ports that are free now."""
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
        """All output of its processes so far."""
        return self.output.read_text(encoding="utf-8", errors="replace")

    def wait_until_serving(self) -> None:
        """Waits until all models can be called. Raises RuntimeError if that takes too long."""
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
        """Returns the running processes of a deployment's replicas."""
        return [one for one in self.processes() if _title(one).startswith(f"ray::ServeReplica:bertscope:{deployment}")]

    def processes(self) -> list[psutil.Process]:
        """Returns all its running processes."""
        try:
            return psutil.Process(self._driver.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def stop(self) -> list[psutil.Process]:
        """Ends the cluster. Returns the processes that had to be killed; none the second time."""
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
    """Returns the configuration that we ship."""
    configuration: dict[str, Any] = yaml.safe_load(CONFIGURATION.read_text(encoding="utf-8"))
    return configuration


def _title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""  # it has just ended
