"""The share of each stage in a server's CPU time, from a sampled profile by py-spy."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

STAGES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("metrics", ("observability/metrics", "prometheus_client/")),
    ("logging", ("observability/logs", "logging/__init__", "observability/call_notes")),
    ("tokenizer", ("checkpoints/tokenizer",)),
    ("render", ("render", "cloze.py:answer", "cloze.py:_likeliest", "cloze.py:fill", "api/provenance")),
    ("parse", ("rpc/malformed",)),
    ("plan", ("api/", "analyses/cloze", "analyses/texts", "analyses/tensors", "analyses/classification")),
    ("device thread", ("engine/runs", "engine/batch", "encoders/", "analyses/observers", "benchmarks/host")),
    ("queue", ("engine/",)),
    ("interceptors", ("bertscope_service/",)),
    ("gRPC", ("grpc/",)),
    ("loop", ("asyncio/", "uvloop")),
)
"""Each stage with parts of the frames "file:function" that belong to it. A sample counts for the innermost frame that any stage
knows; the first stage that knows it has it."""

WAITING = ("threading.py:wait", "concurrent/futures/thread.py:_worker", "selectors.py:select", "socketserver.py:serve_forever")
"""Innermost frames of threads that wait. py-spy can't always tell that they do: they use no CPU, and count for no stage."""

OTHER = "other"
RATE = 250


def available() -> str | None:
    """Returns the path of py-spy, or None if it is not installed."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.exists() else shutil.which("py-spy")


class Profile:
    """Samples a process while it is open.

    >>> with Profile(pid, seconds=3) as profile: ...
    >>> profile.shares
    """

    def __init__(self, process: int, seconds: float) -> None:
        self._command = [str(available()), "record", "--pid", str(process), "--rate", str(RATE), "--format", "raw"]
        self._command += ["--full-filenames", "--duration", str(max(1, round(seconds)))]
        self.shares: dict[str, float] = {}

    def __enter__(self) -> Profile:
        self._folder = tempfile.TemporaryDirectory()
        self._file = Path(self._folder.name) / "stacks"
        silent = subprocess.DEVNULL
        self._running = subprocess.Popen([*self._command, "--output", str(self._file)], stdout=silent, stderr=subprocess.PIPE)
        return self

    def __exit__(self, kind: object, *__: object) -> None:
        _, said = self._running.communicate()
        if kind is None:
            if self._running.returncode:
                raise RuntimeError(f"py-spy failed: {said.decode()[-300:]}")
            self.shares = shares(self._file.read_text())
        self._folder.cleanup()


def shares(stacks: str) -> dict[str, float]:
    """Returns the share of each stage in py-spy's raw stacks, one line each: frames from the outside in, and a count."""
    counted: Counter[str] = Counter()
    for line in stacks.splitlines():
        frames, _, count = line.rpartition(" ")
        stack = list(map(_known, frames.split(";")))
        if not stack[-1].endswith(WAITING):
            counted[_stage(stack)] += int(count)
    return {name: count / counted.total() for name, count in counted.most_common()}


def _known(frame: str) -> str:
    """Returns "path/to/file.py:function" for "function (path/to/file.py:12)"."""
    function, _, place = frame.partition(" (")
    return f"{place.rpartition(':')[0]}:{function.rpartition('.')[2]}"


def _stage(stack: list[str]) -> str:
    for frame in reversed(stack):
        for stage, parts in STAGES:
            if any(part in frame for part in parts):
                return stage
    return OTHER
