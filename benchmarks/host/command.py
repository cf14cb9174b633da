"""Measures the CPU of a server per call and per text when its model computes nothing, beside a bare echo of the same bytes; how
its threads and stages share that, and Python's lock; and the CPU of the clients per call, beside bare stubs."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import grpc
from psutil import Process

from benchmarks.host import echo, stages, threads
from benchmarks.host.client import client_calls, client_table, measure_client
from benchmarks.host.questions import Question, long_stream, questions, write_models
from benchmarks.lib.calls import Calls, send
from benchmarks.lib.options import ROUNDS, option, seconds
from benchmarks.lib.processes import ROOT, cpu_seconds, process, wait_until
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
    rows, costs, holders = list[Row](), dict[str, dict[str, float]](), dict[str, stages.Holders]()
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
                row, cost, held = _measure(question, callers, full if question.refused else server, bare, options)
                rows.append(row)
                costs |= {row.what: cost} if cost else {}
                holders |= {row.what: held} if held else {}
        measured = [(call, measure_client(server.target, call, options.rounds, options.seconds / 2)) for call in clients]
    title = f"A model that computes nothing, beside a bare grpc.aio echo of the same bytes on {options.loop}"
    found = compared(title, rows)
    tables = [*(found.tables if rows else ()), *_tables(costs, holders)]
    data = {**found.data, "threads": costs, "lock": {what: asdict(held) for what, held in holders.items()}}
    if measured:
        table, own = client_table(measured)
        tables, data = [*tables, table], {**data, "clients": own}
    missing = [] if threads.py_spy() else ["no stages, and few names of threads: py-spy is not installed (pip install py-spy)"]
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
) -> tuple[Row, dict[str, float], stages.Holders | None]:
    """Returns the echo and ours in turn, what our threads took for a text, and who held the lock, if they can be told."""
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
    cost = threads.costs(ours, row.found["bertscope"], question.texts)
    return row, cost, _holders(asked, server.process, options.seconds) if threads.py_spy() else None


def _holders(asked: Calls, server: Process, seconds: float) -> stages.Holders:
    """Makes calls again, and samples the server while it answers them."""
    idle = cpu_seconds(server)
    with ThreadPoolExecutor(1) as pool:
        calls = pool.submit(send, replace(asked, seconds=seconds + 1))
        wait_until(lambda: calls.done() or cpu_seconds(server) > idle + 0.1, 60.0, server)
        held = stages.profile(server.pid, seconds)
        calls.result()
    return held


def _tables(costs: dict[str, dict[str, float]], holders: dict[str, stages.Holders]) -> list[Table]:
    """Returns the table of threads, and that of stages, each if there is anything to say. They have no column of zeros."""
    tables = []
    if costs:
        every = next(iter(costs.values()))
        names = [name for name in every if any(cost[name] >= 0.005 * sum(cost.values()) for cost in costs.values())]
        rows = [(what, *_threads(cost, names, holders.get(what))) for what, cost in costs.items()]
        bracket = "; in brackets for how much of the time it holds Python's lock, %" if holders else ""
        tables.append(Table(f"Server CPU of each thread, us/text{bracket}", ("call", *names, "all"), rows))
    if holders:
        names = [name for name in stages.NAMES if any(held.stages.get(name, 0) >= 0.005 for held in holders.values())]
        title = "For how much of the time any thread holds Python's lock, and the share of each stage in that, %"
        rows = [(what, *_percent([held.any, *(held.stages.get(name, 0) for name in names)])) for what, held in holders.items()]
        tables.append(Table(title, ("call", "held", *names), rows))
    return tables


def _threads(cost: dict[str, float], names: list[str], held: stages.Holders | None) -> list[str]:
    cells = [f"{us:,.1f}" for us in (*(cost[name] for name in names), sum(cost.values()))]
    if held is None:
        return cells
    shares = _percent([*(held.threads.get(name, 0) for name in names), held.any])
    return [f"{cell} {f'({share})' if share != '0' else '':>5}" for cell, share in zip(cells, shares, strict=True)]


def _percent(shares: list[float]) -> list[str]:
    return [f"{100 * share:.0f}" for share in shares]
