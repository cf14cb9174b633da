"""`python -m benchmarks host`: CPU of a server per call and per text when its model computes nothing, beside a bare echo; CPU
of the clients per call, beside bare stubs."""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.host import echo, stages
from benchmarks.host.calls import Answers, Calls, send
from benchmarks.host.client import client_calls, measure_clients, print_clients
from benchmarks.host.questions import Question, long_stream, questions, write_models
from benchmarks.lib.measure import machine
from benchmarks.lib.own_process import ROOT
from benchmarks.lib.serving import Running, serving

SERVER = "benchmarks.host.fixed_encoder"


@dataclass(slots=True)
class Cell:
    """One question at a number of callers: ours and the echo, round by round; the share of each stage."""

    question: Question
    callers: int
    ours: list[Answers] = field(default_factory=list)
    bare: list[Answers] = field(default_factory=list)
    shares: dict[str, float] = field(default_factory=dict)

    @property
    def ratios(self) -> list[float]:
        """CPU of one of our calls over that of one echo, round by round."""
        return [ours.cpu_per_call / bare.cpu_per_call for ours, bare in zip(self.ours, self.bare, strict=True)]

    def summary(self) -> dict[str, object]:
        """Returns medians over the rounds."""
        latencies = 1000 * np.concatenate([answers.latencies for answers in self.ours])
        rate = statistics.median(len(answers.latencies) / answers.elapsed for answers in self.ours)
        cpu = statistics.median(answers.cpu_per_call for answers in self.ours)
        return {
            "question": self.question.name,
            "texts": self.question.texts,
            "callers": self.callers,
            "calls_per_second": rate,
            "texts_per_second": rate * self.question.texts,
            "p50_ms": float(np.percentile(latencies, 50)),
            "p99_ms": float(np.percentile(latencies, 99)),
            "cpu_ms_per_call": 1000 * cpu,
            "cpu_us_per_text": 1e6 * cpu / self.question.texts,
            "echo_cpu_ms": 1000 * statistics.median(answers.cpu_per_call for answers in self.bare),
            "ratio": statistics.median(self.ratios),
            "spread": (min(self.ratios), max(self.ratios)),
            "stages": self.shares,
        }


def main(arguments: Sequence[str]) -> int:
    """Measures and prints."""
    options = _parser().parse_args(arguments)
    asked = [question for question in questions() if options.only in question.name and question.texts in options.texts]
    clients = [call for call in client_calls() if options.only in call.title and call.texts in options.texts]
    if not asked and not clients:
        print(f"no call is named {options.only!r} with {options.texts} texts", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        flags = ["--threads", "1", "--runtime", "torch", *write_models(Path(name))]
        server = stack.enter_context(serving(*flags, module=SERVER))
        bare = stack.enter_context(_echoing(options.loop))
        full = server
        if any(question.refused for question in asked):
            full = stack.enter_context(serving(*flags, "--max-calls", "1", module=SERVER))
            stack.enter_context(_filling(full))
        cells = [
            _measure(Cell(question, callers), full if question.refused else server, bare, options.rounds, options.seconds)
            for question in asked
            for callers in options.callers
        ]
        client_cells = measure_clients(server.target, clients, options.rounds, options.seconds / 2)
    if options.json:
        found = {"cells": [cell.summary() for cell in cells], "clients": [cell.summary() for cell in client_cells]}
        print(json.dumps({"machine": machine(), **found}, indent=2))
    else:
        console = Console(width=None if sys.stdout.isatty() else 180)
        if cells:
            _print(console, cells, options.loop)
        if client_cells:
            print_clients(console, client_cells)
        console.print(machine(), highlight=False)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks host", description=__doc__)
    parser.add_argument("--only", default="", metavar="PART", help="only calls with this in their names: FillMask, AsyncClient")
    parser.add_argument("--texts", type=int, nargs="+", default=[1, 8, 64, 256], help="texts in a call")
    parser.add_argument("--callers", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each side in each round")
    parser.add_argument("--loop", choices=("uvloop", "asyncio"), default="uvloop", help="event loop of the bare echo")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of tables")
    return parser


@contextlib.contextmanager
def _echoing(loop: str) -> Iterator[tuple[str, int]]:
    """Runs the bare server; yields its address and process id."""
    command = [sys.executable, "-m", "benchmarks.host.echo", loop]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            yield f"127.0.0.1:{int(process.stdout.readline())}", process.pid
        finally:
            process.terminate()


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


def _measure(cell: Cell, server: Running, bare: tuple[str, int], rounds: int, seconds: float) -> Cell:
    question, (target, process) = cell.question, bare
    asked = Calls(
        target=server.target,
        server=server.process.pid,
        method=question.method,
        request=question.request,
        streaming=question.streaming,
        refused=question.refused,
        callers=cell.callers,
        seconds=seconds,
    )
    size = send(replace(asked, seconds=0.1)).reply_bytes
    method, request = echo.STREAM if question.streaming else echo.UNARY, echo.ask(size, len(question.request))
    echoed = replace(asked, target=target, server=process, method=method, request=request, refused=False)
    for _ in range(rounds):
        cell.ours.append(send(asked))
        cell.bare.append(send(echoed))
    if stages.available():
        with stages.Profile(server.process.pid, seconds) as profile:
            send(replace(asked, seconds=seconds + 1))
        cell.shares = profile.shares
    found = cell.summary()
    line = f"{question.name}, {question.texts} a call, {cell.callers} callers"
    print(f"{line}: {found['cpu_ms_per_call']:.3f} ms, {found['ratio']:.2f} times the echo", file=sys.stderr)
    return cell


def _print(console: Console, cells: list[Cell], loop: str) -> None:
    table = Table(title=f"A model that computes nothing, beside a bare grpc.aio echo of the same bytes on {loop}")
    for heading in ("call", "texts", "callers", "calls/s", "texts/s", "p50 ms", "p99 ms"):
        table.add_column(heading, justify="left" if heading == "call" else "right")
    for heading in ("CPU ms/call", "CPU us/text", "echo ms", "ratio", "spread"):
        table.add_column(heading, justify="right")
    for cell in cells:
        found = cell.summary()
        low, high = min(cell.ratios), max(cell.ratios)
        numbers = [f"{found[name]:,.0f}" for name in ("texts", "callers", "calls_per_second", "texts_per_second")]
        numbers += [f"{found[name]:.2f}" for name in ("p50_ms", "p99_ms")]
        numbers += [f"{found['cpu_ms_per_call']:.3f}", f"{found['cpu_us_per_text']:.1f}", f"{found['echo_cpu_ms']:.3f}"]
        table.add_row(cell.question.name, *numbers, f"{found['ratio']:.2f}", f"{low:.2f} to {high:.2f}")
    console.print(table)
    profiled = [cell for cell in cells if cell.shares]
    if profiled:
        names = [name for name, _ in stages.STAGES] + [stages.OTHER]
        shares = Table(title="Share of each stage in the server's samples, %")
        for heading in ("call", "texts", "callers", *names):
            shares.add_column(heading, justify="left" if heading == "call" else "right")
        for cell in profiled:
            row = [f"{100 * cell.shares.get(name, 0.0):.0f}" for name in names]
            shares.add_row(cell.question.name, str(cell.question.texts), str(cell.callers), *row)
        console.print(shares)
    else:
        console.print("no profile by stage: py-spy is not installed (pip install py-spy)")
