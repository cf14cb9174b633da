"""What a generator is told to send, and what it writes down; both travel between processes as they are."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).parents[2]
"""Where `benchmarks` is found."""

NOT_SENT = -1
"""In place of a status code: so many calls were in flight that the generator kept this one back."""

SPARE_SECONDS = 60.0
"""Beyond what its traffic takes, for the generator's start and for writing down."""


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """Calls in the order they arrive, [calls] each: when (seconds from the start), which client's, which request."""

    times: NDArray[np.float64]
    clients: NDArray[np.int64]
    requests: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Traffic:
    """What all traffic has. What arrives from `begin` to `end` (seconds from the start) is counted."""

    target: str
    server: int
    """Its process id."""
    method: str
    requests: list[bytes]
    clients: int
    """Connections, each a client as far as the server can tell."""
    begin: float
    end: float


@dataclass(frozen=True, slots=True, eq=False)
class OpenLoop(Traffic):
    """Calls that arrive when they arrive, however many wait: MLPerf's "server" scenario."""

    arrivals: Arrivals
    deadline: float
    """Seconds from a call's arrival."""
    most_in_flight: int


@dataclass(frozen=True, slots=True, eq=False)
class ClosedLoop(Traffic):
    """So many callers, each of whom sends its next call when its last one is answered, until `end`."""

    callers: int
    deadline: float


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """What became of the calls, [calls] each, seconds from the start.

    Of a call that was not sent, `sent` and `done` are NaN. `codes` are gRPC's numbers or NOT_SENT; `details` the bytes of the
    reply, or those of the google.rpc.Status. What processes took is that of the counted time.
    """

    arrived: NDArray[np.float64]
    sent: NDArray[np.float64]
    done: NDArray[np.float64]
    clients: NDArray[np.int64]
    requests: NDArray[np.int64]
    codes: NDArray[np.int64]
    details: list[bytes]
    resident_bytes: list[int]
    """The server's, some times a second."""
    server_cores: float
    """CPU time over time, of the server and of the generator."""
    generator_cores: float


def poisson(rate: float, seconds: float, clients: int, requests: int, generator: np.random.Generator) -> Arrivals:
    """Arrivals of a Poisson process of `rate` calls per second. The clients' own are Poisson too, at equal rates."""
    count = generator.poisson(rate * seconds)
    # Given their number, the arrivals of a Poisson process are independent and uniform.
    times = np.sort(generator.uniform(0, seconds, count))
    return Arrivals(times, generator.integers(clients, size=count), generator.integers(requests, size=count))


def generate(traffic: OpenLoop | ClosedLoop) -> Record:
    """Send it from a process of its own, which imports little and is gone afterwards."""
    command = [sys.executable, "-m", "benchmarks.load.generator"]
    limit = traffic.end + traffic.deadline + SPARE_SECONDS
    done = subprocess.run(command, input=pickle.dumps(traffic), stdout=subprocess.PIPE, cwd=ROOT, check=True, timeout=limit)
    record: Record = pickle.loads(done.stdout)
    return record
