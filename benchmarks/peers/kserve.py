"""Runs KServe's Python server. It does not batch: on Kubernetes a program in front of it can."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import onnxruntime

from benchmarks.lib.environments import interpreter
from benchmarks.lib.processes import ROOT, process
from benchmarks.peers.models import Written
from benchmarks.peers.running import MODEL, Running, Setting, wait_until_ready
from tools.deploy.programs import free_port

PACKAGES = ("kserve>=0.21.0", f"onnxruntime=={onnxruntime.__version__}")


@dataclass(frozen=True, slots=True)
class KServe:
    """A KServe server, with the graph on the event loop or in a thread beside it, and with or without uvloop."""

    threads: int
    in_thread: bool
    uvloop: bool

    @property
    def title(self) -> str:
        return f"{'in a thread' if self.in_thread else 'on the loop'}, {'uvloop' if self.uvloop else 'asyncio'}"

    @contextlib.contextmanager
    def start(self, model: Written, environments: Path, scratch: Path) -> Iterator[Running]:
        """Raises UnavailableError."""
        python, log = interpreter(environments / "kserve", PACKAGES), scratch / "log"
        target = f"127.0.0.1:{free_port()}"
        job = {"target": target, "model": MODEL, "file": str(model.graph), "threads": self.threads}
        job |= {"in_thread": self.in_thread, "uvloop": self.uvloop}
        command = [str(python), "-m", "benchmarks.peers.kserve_server", json.dumps(job)]
        with process(command, log, {"PYTHONPATH": str(ROOT)}) as started:
            wait_until_ready(started, target, log)
            yield Running(target, (started,))


def settings(threads: int) -> list[Setting]:
    """Returns the settings to try."""
    return [KServe(threads, in_thread, uvloop) for in_thread in (False, True) for uvloop in (False, True)]
