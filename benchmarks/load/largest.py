"""Measures what the largest request of each rpc does to others: how long it holds the event loop, how long four callers of
small calls wait, what memory stays, and how soon its work ends after its caller has gone, and the server after SIGTERM.

Requests are made from the samples of the tests and from the rules of the contract: of each rpc
the one, among those with one list, one text or all lists as large as they may be, that is answered for the longest. The
embedded model answers, and tiny ones for what needs other heads.
"""

from __future__ import annotations

import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import grpc
from bertscope_service.contract import METHODS, Method, Work
from bertscope_service.embedded import EMBEDDED_FOLDER

from benchmarks.lib.background import OWN_CONNECTION, Callers, filling
from benchmarks.lib.options import option
from benchmarks.lib.report import Report, Table
from benchmarks.lib.serving import Running, serving
from benchmarks.soak.head_questions import write_heads
from tools.protos.largest import Largest
from tools.protos.samples import good

OPTIONS = (
    option("--only", "these rpcs alone", nargs="+", metavar="RPC"),
    option("--repeats", "calls in turn, after which memory is read", 10),
)
CALLERS = 4
IDLE_SECONDS = 3.0
TRIAL_SECONDS, CALL_SECONDS, CANCEL_SECONDS = 0.5, 5.0, 1.0
"""Time limits of a call that is tried, and of one that is measured; when a call is cancelled."""

QUIET_SHARE = 0.3
"""The server's work has ended when it takes less of a core than beside nothing, and this share of one."""

CHANNEL = [OWN_CONNECTION, ("grpc.max_receive_message_length", -1)]
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


def report(options: Namespace) -> Report:
    """Returns a row for each rpc of interactive or bulk work."""
    with tempfile.TemporaryDirectory() as folder:
        heads = write_heads(Path(folder), seed=3)
        flags = [f"--model={NAMES.get(name, name)}={path}" for name, path in {"bert": EMBEDDED_FOLDER, **heads}.items()]
        with serving("--runtime", "torch", *flags) as server:
            with _others(server):
                time.sleep(1)
            with _others(server) as idle:
                time.sleep(IDLE_SECONDS)
            chosen = [method for method in METHODS.values() if method.work in {Work.INTERACTIVE, Work.BULK}]
            asked = [one for one in chosen if not options.only or one.name in options.only]
            rows = [_measure(server, method, options.repeats) for method in asked]
        for method, row in zip(asked, rows, strict=True):
            with serving("--runtime", "torch", *flags) as server:
                row.ended = _stop(server, method, row.data)
    waits = f"beside nothing others wait {1000 * median(idle.seconds):.0f}, at most {1000 * max(idle.seconds):.0f} ms"
    data = {row.rpc: {name: value for name, value in asdict(row).items() if name != "data"} for row in rows}
    return Report([_table(rows)], {"rpcs": data, "idle_waits": idle.seconds}, [waits])


def _others(server: Running) -> Callers:
    """Returns callers of small calls, each on a connection of its own, that never pause."""
    return Callers([partial(filling, server.target)] * CALLERS)


def _measure(server: Running, method: Method, repeats: int) -> Row:
    with grpc.insecure_channel(server.target, CHANNEL) as channel:
        path, data = _longest(channel, method)
        print(f"{method.name}: {path}, {len(data)} bytes", file=sys.stderr)
        before = server.buckets(DELAY)
        with _others(server) as others:
            outcome, seconds = _ask(channel, method, data, CALL_SECONDS)
        delay = _largest_delay(before, server.buckets(DELAY))
        memory = server.resident_bytes()
        for _ in range(repeats):
            _ask(channel, method, data, CALL_SECONDS)
        grown = server.resident_bytes()
        after = _until_idle(server, channel, method, data)
    return Row(method.name, path, data, outcome, seconds, delay, others.seconds, (memory / 1e6, grown / 1e6), after, "")


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
    with grpc.insecure_channel(server.target, CHANNEL) as channel:
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


def _table(rows: Sequence[Row]) -> Table:
    headings = ("rpc", "large", "MB", "outcome", "s", "loop late by < s", "others: median, longest ms", "MB before, after")
    cells = []
    for row in rows:
        waits = [1000 * one for one in row.waits] or [0.0]
        size, times = f"{len(row.data) / 1e6:.2f}", f"{median(waits):.0f}, {max(waits):.0f}"
        memory, idle = "{:.0f}, {:.0f}".format(*row.memory), f"{row.idle_after:.1f} s"
        cells.append((row.rpc, row.path, size, row.outcome, f"{row.seconds:.1f}", row.delay, times, memory, idle, row.ended))
    return Table("The largest request of each rpc", (*headings, "idle after", "ended after"), cells)
