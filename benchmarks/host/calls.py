"""Defines the calls of a process of callers and their outcome; both are pickled between processes."""

from __future__ import annotations

from dataclasses import dataclass, field

from benchmarks.lib.own_process import run_module


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
    answers: Answers = run_module("benchmarks.host.callers", calls, calls.seconds)
    return answers
