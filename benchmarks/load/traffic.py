"""Defines a generator's traffic and its record; both are pickled between processes."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.lib.processes import run_module

NOT_SENT = -1
"""A code in place of a status: too many calls were in flight, and the generator held this one back."""


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """Calls in the order they arrive, [calls] each: the time (seconds from the start), the client, the request."""

    times: NDArray[np.float64]
    clients: NDArray[np.int64]
    requests: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Traffic:
    """The common part of all traffic. Calls that arrive from `begin` to `end` (seconds from the start) are counted."""

    target: str
    server: int
    """The server's process id."""
    proxy: int | None
    """The process id of a proxy before it."""
    method: str
    requests: list[bytes]
    clients: int
    """Connections, each a client as far as the server can tell."""
    begin: float
    end: float

    def fields(self) -> dict[str, Any]:
        """Returns the fields by name."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


@dataclass(frozen=True, slots=True, eq=False)
class OpenLoop(Traffic):
    """Calls that arrive however many wait: MLPerf's "server" scenario."""

    arrivals: Arrivals
    deadline: float
    """Seconds from a call's arrival."""
    most_in_flight: int


@dataclass(frozen=True, slots=True, eq=False)
class ClosedLoop(Traffic):
    """Callers that each send the next call when the last one is answered, until `end`."""

    callers: int
    deadline: float


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """The outcomes of the calls, [calls] each, seconds from the start.

    `sent` and `done` are NaN for a call that was not sent. `codes` are gRPC's numbers or NOT_SENT; `details` the bytes of the
    reply, or those of the google.rpc.Status. Resources of processes are those of the counted time.
    """

    arrived: NDArray[np.float64]
    sent: NDArray[np.float64]
    done: NDArray[np.float64]
    clients: NDArray[np.int64]
    requests: NDArray[np.int64]
    codes: NDArray[np.int64]
    details: list[bytes]
    resident_bytes: list[int]
    """The server's resident memory, sampled several times a second."""
    server_cores: float
    """CPU time over time, of the server, a proxy and the generator."""
    proxy_cores: float
    generator_cores: float


def poisson(rate: float, seconds: float, clients: int, requests: int, generator: np.random.Generator) -> Arrivals:
    """Returns arrivals of a Poisson process of `rate` calls per second. Each client's are Poisson too, at equal rates."""
    count = generator.poisson(rate * seconds)
    # Given their number, the arrivals of a Poisson process are independent and uniform.
    times = np.sort(generator.uniform(0, seconds, count))
    return Arrivals(times, generator.integers(clients, size=count), generator.integers(requests, size=count))


def generate(traffic: OpenLoop | ClosedLoop) -> Record:
    """Sends traffic from a separate process."""
    record: Record = run_module("benchmarks.load.generator", traffic, traffic.end + traffic.deadline)
    return record
