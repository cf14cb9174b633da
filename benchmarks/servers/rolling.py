"""Counts calls that fail while two servers are restarted one after the other.

All callers ask the same two servers at the same time: Python clients of both addresses, a FastAPI service with such
a client, Python clients of Envoy (deploy/envoy) in front of both, and, to compare, clients of both addresses with gRPC's own
settings for reconnecting and without health.
"""

from __future__ import annotations

import http.client
import socket
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import quote

import numpy as np

from benchmarks.lib.background import TEXT, Ask, Caller, Callers, filling, streaming
from benchmarks.lib.options import option
from benchmarks.lib.processes import process, wait_until
from benchmarks.lib.report import Report, Table
from benchmarks.lib.texts import cloze_texts
from benchmarks.servers.members import START_SECONDS, Member
from tools.deploy.envoy import Envoy
from tools.deploy.programs import free_port

OPTIONS = (
    option("--load-seconds", "how long a server listens before it has its model", 60.0),
    option("--away-seconds", "how long nothing listens on a stopped server's port", 20.0),
    option("--drain-seconds", "of the servers", 5.0),
)
TWO, WEB, ENVOY, PLAIN = "two addresses", "FastAPI, two addresses", "Envoy", "two addresses, gRPC's own settings"
PLAIN_OPTIONS = [
    ("grpc.inhibit_health_checking", 1),
    ("grpc.initial_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 120_000),
]
SOME = 5
"""Answers that each caller must have had before the next step."""

PAUSE_SECONDS = 0.1
"""The pause of a caller between two calls: the servers need a core to start."""

CALL_SECONDS = 60.0
STREAMED_TEXTS = 4


def report(options: Namespace) -> Report:
    """Returns a row for each kind of callers; a call that failed, of those that must not, is a fault."""

    def loading(_: Sequence[Callers]) -> None:
        time.sleep(options.load_seconds)

    found = roll(loading, (TWO, WEB, ENVOY, PLAIN), options.away_seconds, options.drain_seconds)
    data, rows = {}, []
    for kind, callers in found.items():
        failed, calls = callers.errors.total(), sum(map(len, callers.calls))
        times = np.quantile(callers.seconds, [0.5, 0.99, 1.0]).tolist()
        data[kind] = {"calls": calls, "errors": dict(callers.errors), "p50_p99_longest_seconds": times}
        rows.append((kind, str(calls), str(failed), *(f"{1000 * seconds:.0f}" for seconds in times)))
    stages = f"away {options.away_seconds:g} s, loading {options.load_seconds:g} s, draining {options.drain_seconds:g} s"
    title = f"Two servers restarted one after the other ({stages}); four callers of each kind"
    remarks = [f"{kind}: {count} times {error}" for kind, callers in found.items() for error, count in callers.errors.items()]
    remarks.append("Servers, callers, Envoy and the web service share the machine.")
    faults = [f"{kind}: {callers.errors.total()} calls failed" for kind, callers in found.items() if callers.errors]
    headings = ("callers", "calls", "failed", "p50 ms", "p99 ms", "longest ms")
    return Report([Table(title, headings, rows)], data, remarks, [fault for fault in faults if not fault.startswith(PLAIN)])


def roll(
    loading: Callable[[Sequence[Callers]], None], kinds: Sequence[str], away_seconds: float, drain_seconds: float
) -> dict[str, Callers]:
    """Restarts both servers in turn under calls, and returns the callers of each kind.

    A restarted server listens, and loads its model when `loading`, which gets the callers, has returned.
    """
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        flags = ("--log-level", "warning", "--runtime", "torch", "--threads", "1", "--drain-seconds", str(drain_seconds))
        members = [stack.enter_context(Member(folder, number, flags)) for number in range(2)]
        for member in members:
            member.load()
        targets = [member.target for member in members]
        with ExitStack() as asking:
            groups = {
                kind: asking.enter_context(Callers(_callers(kind, stack, folder, targets), PAUSE_SECONDS)) for kind in kinds
            }
            for member in members:
                wait_for_answers(list(groups.values()), SOME)
                member.stop()
                time.sleep(away_seconds)
                member.start()
                loading(list(groups.values()))
                member.load()
            wait_for_answers(list(groups.values()), SOME)
        return groups


def wait_for_answers(groups: Sequence[Callers], count: int) -> None:
    """Waits until each caller has had so many more answers."""
    for group in groups:
        group.wait_for_answers(count)


def _callers(kind: str, stack: ExitStack, folder: Path, targets: Sequence[str]) -> list[Caller]:
    both = ",".join(targets)
    if kind == WEB:
        return [partial(_by_http, stack.enter_context(_web_service(folder, both)))] * 4
    target = stack.enter_context(Envoy(folder, targets)).target if kind == ENVOY else both
    options = PLAIN_OPTIONS if kind == PLAIN else []
    fill, stream = partial(filling, target, options), partial(streaming, target, cloze_texts()[:STREAMED_TEXTS], options)
    return [fill, fill, stream, stream]


@contextmanager
def _by_http(port: int) -> Iterator[Ask]:
    """Connects a caller of the web service."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=CALL_SECONDS)) as connection:

        def ask() -> None:
            connection.request("GET", f"/fill?text={quote(TEXT)}")
            reply = connection.getresponse()
            body = reply.read()
            if reply.status != http.client.OK:
                raise http.client.HTTPException(f"{reply.status}: {body.decode(errors='replace')}")

        yield ask


@contextmanager
def _web_service(folder: Path, target: str) -> Iterator[int]:
    """Runs the FastAPI service. Yields its port. Raises RuntimeError."""
    port, log = free_port(), folder / "web_service"
    command = [sys.executable, "-m", "uvicorn", "benchmarks.servers.web_service:app", "--port", str(port)]
    with process([*command, "--log-level", "warning"], log, {"BENCH_TARGET": target}) as started:
        wait_until(lambda: _listens(port), START_SECONDS, started, log)
        yield port


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
