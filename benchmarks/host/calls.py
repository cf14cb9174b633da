"""Defines the calls of a process of callers, or of a client, and their outcome; they are pickled between processes."""

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
    beside: tuple[int, ...] = ()
    """Process ids of further servers behind the same target, whose CPU counts, too."""


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


@dataclass(frozen=True, slots=True)
class Pair:
    """A call of the client and the same one of the generated stub."""

    target: str
    method: str
    """A key of `stubs.METHODS`."""
    request: bytes
    asynchronous: bool
    callers: int
    """Threads that share a `Client`, or tasks that share an `AsyncClient`."""
    reading: bool
    """True if the callers read every number of a reply."""
    connecting: bool
    """True if each call opens a connection and closes it."""
    rounds: int
    seconds: float
    """Duration of each side in each round."""


@dataclass(slots=True)
class Costs:
    """CPU seconds of the calling process for one call, round by round."""

    bare: list[float]
    ours: list[float]


def compare(pair: Pair) -> Costs:
    """Measures a pair in a process of its own."""
    costs: Costs = run_module("benchmarks.host.stubs", pair, 2 * (1 + pair.rounds) * pair.seconds)
    return costs
