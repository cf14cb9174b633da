"""Defines the calls of a process of callers and their outcome; both are pickled between processes."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
SPARE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Calls:
    """The request to send, the server to send it to, and for how long."""

    target: str
    server: int
    """The server's process id."""
    method: str
    request: bytes
    streaming: bool
    refused: bool
    """True if the server is full: every call has to be refused."""
    callers: int
    seconds: float


@dataclass(slots=True)
class Answers:
    """The outcome of calls: the seconds of each call, the seconds that passed, and the server's CPU seconds meanwhile."""

    latencies: list[float] = field(default_factory=list)
    elapsed: float = 0.0
    cpu: float = 0.0
    reply_bytes: int = 0
    """All messages of one reply together."""

    @property
    def cpu_per_call(self) -> float:
        return self.cpu / len(self.latencies)


def send(calls: Calls) -> Answers:
    """Sends the calls from a process of its own."""
    command = [sys.executable, "-m", "benchmarks.host.callers"]
    timeout = calls.seconds + SPARE_SECONDS
    done = subprocess.run(command, input=pickle.dumps(calls), stdout=subprocess.PIPE, cwd=ROOT, timeout=timeout, check=True)
    answers = pickle.loads(done.stdout)
    assert isinstance(answers, Answers)
    return answers
