"""Measures what the largest request of each rpc does to others: how long it holds the event loop, how long four callers of
small calls wait, what memory stays, and how soon its work ends after its caller has gone, and the server after SIGTERM.

`python -m benchmarks largest`. Requests are made from the samples of the tests and from the rules of the contract: of each rpc
the one, among those with one list, one text or all lists as large as they may be, that is answered for the longest. The
embedded model answers, and tiny ones for what needs other heads.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import grpc
from bertscope.v1 import cloze_pb2
from bertscope_service.contract import METHODS, Method, Work
from bertscope_service.embedded import EMBEDDED_FOLDER
from rich.console import Console
from rich.table import Table

from benchmarks.lib.measure import machine
from benchmarks.lib.serving import Running, serving
from benchmarks.soak.head_questions import write_heads
from tools.protos.largest import Largest
from tools.protos.samples import good

CALLERS = 4
IDLE_SECONDS = 3.0
TRIAL_SECONDS, CALL_SECONDS, CANCEL_SECONDS = 0.5, 5.0, 1.0
"""Time limits of a call that is tried, and of one that is measured; when a call is cancelled."""

QUIET_SHARE = 0.3
"""The server's work has ended when it takes less of a core than beside nothing, and this share of one."""

OWN_CONNECTION = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
SMALL = cloze_pb2.FillMaskRequest(texts=["Paris is the capital of [MASK]."], top_k=1).SerializeToString()
NAMES = {"classifier": "sorter"}
"""Models of the samples, by the names of the soak's."""

ALL = "all lists"
DELAY = "bertscope_event_loop_delay_seconds"


@dataclass(slots=True)
class Row:
    """The figures of one rpc: bytes, outcome, seconds, the longest delay of the loop (the bucket that it is in), waits of
    others, resident MB before and after repeated calls, and seconds from a cancel until the server is idle."""

    rpc: str
    path: str
    data: bytes
    outcome: str
    seconds: float
    delay: str
    waits: list[float]
    memory: tuple[float, float]
    idle_after: float
    ended: str
    """Seconds from SIGTERM until the server has ended behind four such calls, and its status."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks largest", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="RPC", help="these rpcs alone")
    parser.add_argument("--repeats", type=int, default=10, help="calls in turn, after which memory is read")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        heads = write_heads(Path(folder), seed=3)
        flags = [f"--model={NAMES.get(name, name)}={path}" for name, path in {"bert": EMBEDDED_FOLDER, **heads}.items()]
        with serving("--runtime", "torch", *flags) as server:
            idle = _idle(server)
            chosen = [method for method in METHODS.values() if method.work in {Work.INTERACTIVE, Work.BULK}]
            asked = [one for one in chosen if not options.only or one.name in options.only]
            rows = [_measure(server, method, options.repeats) for method in asked]
        for method, row in zip(asked, rows, strict=True):
            with serving("--runtime", "torch", *flags) as server:
                row.ended = _stop(server, method, row.data)
    _print(idle, rows)
    return 0


class Others:
    """Callers of small calls, each on a connection of its own, that never pause; `waits` are the seconds of their calls."""

    def __init__(self, target: str) -> None:
        self._target, self._over = target, threading.Event()
        self._threads = [threading.Thread(target=self._call) for _ in range(CALLERS)]
        self.waits: list[float] = []

    def __enter__(self) -> Others:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _call(self) -> None:
        with grpc.insecure_channel(self._target, OWN_CONNECTION) as channel:
            call: Any = channel.unary_unary("/bertscope.v1.ClozeService/FillMask")
            while not self._over.is_set():
                began = time.perf_counter()
                call(SMALL, timeout=60)
                self.waits.append(time.perf_counter() - began)


def _idle(server: Running) -> list[float]:
    with Others(server.target):
        time.sleep(1)
    with Others(server.target) as others:
        time.sleep(IDLE_SECONDS)
    return others.waits


def _measure(server: Running, method: Method, repeats: int) -> Row:
    with grpc.insecure_channel(server.target, OWN_CONNECTION) as channel:
        path, data = _longest(channel, method)
        print(f"{method.name}: {path}, {len(data)} bytes", file=sys.stderr)
        before = server.buckets(DELAY)
        with Others(server.target) as others:
            outcome, seconds = _ask(channel, method, data, CALL_SECONDS)
        delay = _largest_delay(before, server.buckets(DELAY))
        memory = server.resident_bytes()
        for _ in range(repeats):
            _ask(channel, method, data, CALL_SECONDS)
        grown = server.resident_bytes()
        after = _until_idle(server, channel, method, data)
    return Row(method.name, path, data, outcome, seconds, delay, others.waits, (memory / 1e6, grown / 1e6), after, "")


def _longest(channel: grpc.Channel, method: Method) -> tuple[str, bytes]:
    """Returns the request that is answered for the longest, and the field that is large."""
    largest, sample = Largest(), good(EMBEDDED_FOLDER)[method.name]
    made = [*largest.of(sample), (ALL, largest.whole(sample))]
    tried = [(_ask(channel, method, request.SerializeToString(), TRIAL_SECONDS)[1], path, request) for path, request in made]
    # Of those that ran until the deadline, that with all lists.
    _, path, request = max(tried, key=lambda one: (round(one[0], 1), one[1] == ALL, one[2].ByteSize()))
    return path, request.SerializeToString()


def _start(channel: grpc.Channel, method: Method, data: bytes, seconds: float) -> Any:
    make: Any = channel.unary_stream if method.streaming else channel.unary_unary
    call = make(method.path)
    return call(data, timeout=seconds) if method.streaming else call.future(data, timeout=seconds)


def _ask(channel: grpc.Channel, method: Method, data: bytes, seconds: float) -> tuple[str, float]:
    """Calls a method. Returns how it ended, and after how many seconds."""
    began, outcome = time.perf_counter(), "OK"
    call = _start(channel, method, data, seconds)
    try:
        for _ in call if method.streaming else [call.result()]:
            pass
    except grpc.RpcError as error:
        outcome = error.code().name
    return outcome, time.perf_counter() - began


def _until_idle(server: Running, channel: grpc.Channel, method: Method, data: bytes) -> float:
    """Cancels a call. Returns the seconds until the server works no more."""
    call = _start(channel, method, data, 60)
    time.sleep(CANCEL_SECONDS)
    call.cancel()
    began = time.perf_counter()
    while True:
        now = time.perf_counter()
        if server.process.cpu_percent(0.2) < 100 * QUIET_SHARE:
            return now - began


def _stop(server: Running, method: Method, data: bytes) -> str:
    """Ends a server by SIGTERM while four callers wait. Returns after how many seconds it has ended, and its status."""
    with grpc.insecure_channel(server.target, OWN_CONNECTION) as channel:
        calls = [_start(channel, method, data, 60) for _ in range(CALLERS)]
        time.sleep(CANCEL_SECONDS)
        server.process.terminate()
        began = time.perf_counter()
        status = server.process.wait(120)
        seconds = time.perf_counter() - began
        for call in calls:
            call.cancel()
    return f"{seconds:.1f} s, status {status}"


def _largest_delay(before: Mapping[str, float], after: Mapping[str, float]) -> str:
    """Returns the upper bound of the longest delay between two readings."""
    counts = {bound: count - before[bound] for bound, count in after.items()}
    return next(bound for bound, count in counts.items() if count == counts["+Inf"])


def _print(idle: Sequence[float], rows: Sequence[Row]) -> None:
    table = Table(
        "rpc",
        "large",
        "MB",
        "outcome",
        "s",
        "loop late by < s",
        "others: median, longest ms",
        "MB before, after",
        "idle after",
        "ended after",
    )
    for row in rows:
        waits = [1000 * one for one in row.waits] or [0.0]
        table.add_row(
            row.rpc,
            row.path,
            f"{len(row.data) / 1e6:.2f}",
            row.outcome,
            f"{row.seconds:.1f}",
            row.delay,
            f"{median(waits):.0f}, {max(waits):.0f}",
            "{:.0f}, {:.0f}".format(*row.memory),
            f"{row.idle_after:.1f} s",
            row.ended,
        )
    console = Console(width=200)
    console.print(table)
    console.print(f"beside nothing others wait {1000 * median(idle):.0f}, {1000 * max(idle):.0f} ms; {machine()}")
