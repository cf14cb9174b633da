"""Measures the CPU of a server per call and per text when its model computes nothing, beside a bare echo of the same bytes, and
the CPU of the clients per call, beside bare stubs."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import grpc
from psutil import Process

from benchmarks.host import echo, stages
from benchmarks.host.client import client_calls, client_table, measure_client
from benchmarks.host.questions import Question, long_stream, questions, write_models
from benchmarks.lib.calls import Calls, send
from benchmarks.lib.options import ROUNDS, option, seconds
from benchmarks.lib.processes import ROOT, process, wait_until
from benchmarks.lib.report import Report, Table
from benchmarks.lib.serving import Running, serving
from benchmarks.lib.sides import Row, compared, take_turns

SERVER = "benchmarks.host.fixed_encoder"
OPTIONS = (
    ROUNDS,
    seconds(2.0, "of each side in each round"),
    option("--only", "only calls with this in their names: FillMask, AsyncClient", "", metavar="PART"),
    option("--texts", "texts in a call", [1, 8, 64, 256], type=int, nargs="+"),
    option("--callers", "calls at a time", [1, 8, 32], type=int, nargs="+"),
    option("--loop", "event loop of the bare echo", "uvloop", choices=("uvloop", "asyncio")),
)


def report(options: Namespace) -> Report:
    """Measures the calls that have --only in their names. Raises ValueError if there are none."""
    asked = [question for question in questions() if options.only in question.name and question.texts in options.texts]
    clients = [call for call in client_calls() if options.only in call.title and call.texts in options.texts]
    if not asked and not clients:
        raise ValueError(f"no call is named {options.only!r} with {options.texts} texts")
    rows, shares = list[Row](), dict[str, dict[str, float]]()
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        flags = ["--threads", "1", "--runtime", "torch", *write_models(Path(name))]
        server = stack.enter_context(serving(*flags, module=SERVER))
        bare = stack.enter_context(_echoing(options.loop, Path(name) / "echo"))
        full = server
        if any(question.refused for question in asked):
            full = stack.enter_context(serving(*flags, "--max-calls", "1", module=SERVER))
            stack.enter_context(_filling(full))
        for question in asked:
            for callers in options.callers:
                row, share = _measure(question, callers, full if question.refused else server, bare, options)
                rows.append(row)
                shares |= {row.what: share} if share else {}
        costs = [(call, measure_client(server.target, call, options.rounds, options.seconds / 2)) for call in clients]
    title = f"A model that computes nothing, beside a bare grpc.aio echo of the same bytes on {options.loop}"
    found = compared(title, rows)
    tables = [*(found.tables if rows else ()), *([_stages(shares)] if shares else ())]
    data = {**found.data, "stages": shares}
    if costs:
        table, own = client_table(costs)
        tables, data = [*tables, table], {**data, "clients": own}
    missing = [] if stages.available() else ["no profile by stage: py-spy is not installed (pip install py-spy)"]
    return Report(tables, data, missing)


@contextlib.contextmanager
def _echoing(loop: str, port_file: Path) -> Iterator[tuple[str, Process]]:
    """Runs the bare server; yields its address and process."""
    with process([sys.executable, "-m", "benchmarks.host.echo", loop], port_file, {"PYTHONPATH": str(ROOT)}) as started:
        wait_until(lambda: port_file.read_text().endswith("\n"), 60.0, started)
        yield f"127.0.0.1:{int(port_file.read_text())}", started


@contextlib.contextmanager
def _filling(server: Running) -> Iterator[None]:
    """Keeps one call running: a stream whose reader pauses."""
    question = long_stream()
    with grpc.insecure_channel(server.target) as channel:
        stream: Any = channel.unary_stream(question.method)
        call = stream(question.request)
        next(call)
        try:
            yield
        finally:
            call.cancel()


def _measure(
    question: Question, callers: int, server: Running, bare: tuple[str, Process], options: Namespace
) -> tuple[Row, dict[str, float]]:
    """Returns the echo and ours in turn, and the share of each stage, if they can be told."""
    (target, other), ours = bare, server.process.pid
    asked = Calls(
        target=server.target,
        method=question.method,
        request=question.request,
        callers=callers,
        seconds=options.seconds,
        servers=(ours,),
        streaming=question.streaming,
        refused=question.refused,
    )
    size = send(replace(asked, seconds=0.1)).reply_bytes
    method, request = echo.STREAM if question.streaming else echo.UNARY, echo.ask(size, len(question.request))
    echoed = replace(asked, target=target, servers=(other.pid,), method=method, request=request, refused=False)
    what = f"{question.name}, {question.texts} texts a call, {callers} callers"
    sides = {"echo": partial(send, echoed), "bertscope": partial(send, asked)}
    row = take_turns(what, question.texts, sides, options.rounds)
    if not stages.available():
        return row, {}
    with stages.Profile(ours, options.seconds) as profile:
        send(replace(asked, seconds=options.seconds + 1))
    return row, profile.shares


def _stages(found: dict[str, dict[str, float]]) -> Table:
    names = [name for name, _ in stages.STAGES] + [stages.OTHER]
    rows = [(what, *(f"{100 * shares.get(name, 0.0):.0f}" for name in names)) for what, shares in found.items()]
    return Table("Share of each stage in the server's samples, %", ("call", *names), rows)
