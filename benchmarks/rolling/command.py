"""`python -m benchmarks rolling`: calls that fail while two servers are restarted one after the other.

All callers ask the same two servers at the same time: Python clients of both addresses, a FastAPI service with such
a client, Python clients of Envoy (deploy/envoy) in front of both, and, to compare, clients of both addresses with gRPC's own
settings for reconnecting and without health.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.lib.measure import machine
from benchmarks.peers.processes import process
from benchmarks.rolling.callers import Caller, Callers, by_grpc, by_http
from benchmarks.rolling.servers import LOOK_SECONDS, START_SECONDS, Member
from tools.deploy.envoy import Envoy

TWO, WEB, ENVOY, PLAIN = "two addresses", "FastAPI, two addresses", "Envoy", "two addresses, gRPC's own settings"
PLAIN_OPTIONS = [
    ("grpc.inhibit_health_checking", 1),
    ("grpc.initial_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 120_000),
]
SOME = 5
"""Answers that each caller must have had before the next step."""


@dataclass(frozen=True, slots=True)
class Row:
    """The calls of callers of one kind; times of answered calls in seconds."""

    callers: str
    calls: int
    failed: int
    p50: float
    p99: float
    longest: float
    errors: dict[str, int]

    @classmethod
    def of(cls, callers: Callers) -> Row:
        seconds = [second for tally in callers.tallies for second in tally.seconds]
        failed = callers.errors.total()
        p50, p99, longest = np.quantile(seconds, [0.5, 0.99, 1.0]).tolist()
        return cls(callers.title, len(seconds) + failed, failed, p50, p99, longest, dict(callers.errors))


def main(arguments: Sequence[str]) -> int:
    """Measures and prints; exit status 1 if a call failed of those that must not."""
    options = _parser().parse_args(arguments)

    def loading(_: Sequence[Callers]) -> None:
        time.sleep(options.load_seconds)

    rows = list(roll(loading, (TWO, WEB, ENVOY, PLAIN), options.away_seconds, options.drain_seconds))
    if options.json:
        print(json.dumps({"machine": machine(), "rows": [asdict(row) for row in rows]}, indent=2))
    else:
        _print(rows, options)
    return int(any(row.failed for row in rows if row.callers != PLAIN))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks rolling", description=__doc__)
    parser.add_argument("--load-seconds", type=float, default=60.0, help="how long a server listens before it has its model")
    parser.add_argument("--away-seconds", type=float, default=20.0, help="how long nothing listens on a stopped server's port")
    parser.add_argument("--drain-seconds", type=float, default=5.0, help="of the servers")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    return parser


def roll(
    loading: Callable[[Sequence[Callers]], None], kinds: Sequence[str], away_seconds: float, drain_seconds: float
) -> Iterator[Row]:
    """Restarts both servers in turn under calls, and yields what each kind of callers saw.

    A restarted server listens, and loads its model when `loading`, which gets the callers, has returned.
    """
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        flags = ("--log-level", "warning", "--runtime", "torch", "--threads", "1", "--drain-seconds", str(drain_seconds))
        members = [stack.enter_context(Member(folder, number, flags)) for number in range(2)]
        for member in members:
            member.load()
        targets = [member.target for member in members]
        groups = [stack.enter_context(Callers(kind, _callers(kind, stack, folder, targets))) for kind in kinds]
        for member in members:
            _wait_for_answers(groups)
            member.stop()
            time.sleep(away_seconds)
            member.start()
            member.wait_until_listening()
            loading(groups)
            member.load()
        _wait_for_answers(groups)
        for group in groups:
            group.__exit__()
        yield from map(Row.of, groups)


def _callers(kind: str, stack: ExitStack, folder: Path, targets: Sequence[str]) -> list[Caller]:
    both = ",".join(targets)
    if kind == WEB:
        return by_http(stack.enter_context(_web_service(folder, both)))
    if kind == ENVOY:
        return by_grpc(stack.enter_context(Envoy(folder, targets)).target)
    return by_grpc(both, PLAIN_OPTIONS if kind == PLAIN else ())


@contextmanager
def _web_service(folder: Path, target: str) -> Iterator[int]:
    """Runs the FastAPI service. Yields its port. Raises TimeoutError."""
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    log = folder / "web_service"
    command = [sys.executable, "-m", "uvicorn", "benchmarks.rolling.web_service:app", "--port", str(port)]
    with process([*command, "--log-level", "warning"], log, {"BENCH_TARGET": target}):
        limit = time.monotonic() + START_SECONDS
        while not _listens(port):
            if time.monotonic() > limit:
                raise TimeoutError(f"the web service did not listen within {START_SECONDS:g} s:\n{log.read_text()}")
            time.sleep(LOOK_SECONDS)
        yield port


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def _wait_for_answers(groups: Sequence[Callers]) -> None:
    """Waits until each caller has had more answers."""
    before = [group.answered for group in groups]
    while any(
        now < then + SOME
        for group, earlier in zip(groups, before, strict=True)
        for now, then in zip(group.answered, earlier, strict=True)
    ):
        time.sleep(LOOK_SECONDS)


def _print(rows: Sequence[Row], options: argparse.Namespace) -> None:
    stages = f"away {options.away_seconds:g} s, loading {options.load_seconds:g} s, draining {options.drain_seconds:g} s"
    table = Table(title=f"Two servers restarted one after the other ({stages}); four callers of each kind")
    for heading in ("callers", "calls", "failed", "p50 ms", "p99 ms", "longest ms"):
        table.add_column(heading, justify="left" if heading == "callers" else "right")
    for row in rows:
        times = [f"{1000 * seconds:.0f}" for seconds in (row.p50, row.p99, row.longest)]
        table.add_row(row.callers, str(row.calls), str(row.failed), *times)
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(table)
    for row in rows:
        for error, times_seen in row.errors.items():
            console.print(f"{row.callers}: {times_seen} times {error}", highlight=False)
    console.print("Servers, callers, Envoy and the web service share the machine.", highlight=False)
    console.print(machine(), highlight=False)
