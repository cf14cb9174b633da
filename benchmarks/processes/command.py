"""`python -m benchmarks processes`: one server process with all cores against several with a part of them each.

The cloze calls are answered by the embedded model, and by one that computes nothing, where the process itself is the limit.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from bertscope.v1 import cloze_pb2
from bertscope_service.embedded import EMBEDDED_FOLDER
from rich.console import Console
from rich.table import Table

from benchmarks.host.calls import Answers, Calls, send
from benchmarks.host.command import SERVER as FIXED_ENCODER
from benchmarks.host.questions import LARGE, write_models
from benchmarks.lib.measure import machine
from benchmarks.lib.texts import cloze_texts
from benchmarks.processes.sides import Side, running

METHOD = "/bertscope.v1.ClozeService/FillMask"
FIXED, EMBEDDED = "no model", "bertscope-mini"


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a side: its answers, and how many calls each of its servers answered meanwhile."""

    answers: Answers
    calls: Sequence[float]

    @property
    def rate(self) -> float:
        """Calls a second."""
        return len(self.answers.latencies) / self.answers.elapsed

    @property
    def busiest(self) -> float:
        """The share of the server that answered most, of all calls: 0.5 of two is even."""
        return max(self.calls) / max(1.0, sum(self.calls))


@dataclass(slots=True)
class Row:
    """A model, a number of texts in a call, and the turns of each side, by its title."""

    model: str
    texts: int
    turns: dict[str, list[Turn]] = field(default_factory=dict)

    def summaries(self) -> Iterator[Summary]:
        """Yields the medians of each side; the first one is what the others are compared with."""
        base = next(iter(self.turns.values()))
        for title, turns in self.turns.items():
            ratios = [turn.rate / one.rate for turn, one in zip(turns, base, strict=True)]
            latencies = 1000 * np.concatenate([turn.answers.latencies for turn in turns])
            yield Summary(
                self.model,
                self.texts,
                title,
                texts_per_second=self.texts * statistics.median(turn.rate for turn in turns),
                p50_ms=float(np.percentile(latencies, 50)),
                p99_ms=float(np.percentile(latencies, 99)),
                cpu_ms_per_call=1000 * statistics.median(turn.answers.cpu_per_call for turn in turns),
                busiest=statistics.median(turn.busiest for turn in turns),
                ratio=statistics.median(ratios),
                spread=(min(ratios), max(ratios)),
            )


@dataclass(frozen=True, slots=True)
class Summary:
    """A line of the table. `cpu_ms_per_call` is that of all servers of the side, without Envoy."""

    model: str
    texts: int
    side: str
    texts_per_second: float
    p50_ms: float
    p99_ms: float
    cpu_ms_per_call: float
    busiest: float
    ratio: float
    spread: tuple[float, float]


def main(arguments: Sequence[str]) -> int:
    """Measures and prints."""
    options = _parser().parse_args(arguments)
    rows = [row for model in options.model or (FIXED, EMBEDDED) for row in _measure(model, options)]
    summaries = [summary for row in rows for summary in row.summaries()]
    if options.json:
        print(json.dumps({"machine": machine(), "rows": list(map(asdict, summaries))}, indent=2))
    else:
        console = Console(width=None if sys.stdout.isatty() else 160)
        console.print(table(summaries, options.callers, options.rounds))
        console.print(machine(), highlight=False)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks processes", description=__doc__)
    parser.add_argument("--model", action="append", choices=(FIXED, EMBEDDED), help="repeatable; both unless given")
    parser.add_argument("--processes", type=int, default=2, help="of the side with several")
    parser.add_argument("--texts", type=int, nargs="+", default=[1, 64], help="texts in a call")
    parser.add_argument("--callers", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each side in each round")
    shared = "all processes share all cores: for a GPU, with --serve '--device cuda'"
    parser.add_argument("--share", action="store_true", help=shared)
    parser.add_argument("--serve", default="--runtime onnx", metavar="FLAGS", help="flags of the servers, in one string")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    return parser


def _measure(model: str, options: argparse.Namespace) -> Iterator[Row]:
    """Yields a row for each number of texts; the sides take turns."""
    with tempfile.TemporaryDirectory() as folder:
        if model == FIXED:
            name, module, flags = LARGE, FIXED_ENCODER, [*write_models(Path(folder)), "--runtime", "torch"]
        else:
            name, module, flags = EMBEDDED, "bertscope_service", ["--model", f"{EMBEDDED}={EMBEDDED_FOLDER}"]
            flags += shlex.split(options.serve)
        with running(flags, options.processes, module, divide=not options.share) as sides:
            for texts in options.texts:
                request = cloze_pb2.FillMaskRequest(model=f"models/{name}", texts=cloze_texts()[:texts], top_k=5)
                row = Row(model, texts)
                for _ in range(options.rounds):
                    for side in sides:
                        turn = _turn(side, request.SerializeToString(), options.callers, options.seconds)
                        row.turns.setdefault(side.title, []).append(turn)
                print(f"{model}, {texts} texts a call: done", file=sys.stderr)
                yield row


def _turn(side: Side, request: bytes, callers: int, seconds: float) -> Turn:
    first, *others = (server.process.pid for server in side.servers)
    before = side.calls()
    answers = send(
        Calls(
            target=side.target,
            server=first,
            beside=tuple(others),
            method=METHOD,
            request=request,
            streaming=False,
            refused=False,
            callers=callers,
            seconds=seconds,
        )
    )
    return Turn(answers, [now - then for now, then in zip(side.calls(), before, strict=True)])


def table(summaries: Sequence[Summary], callers: int, rounds: int) -> Table:
    """Returns a line for each side of each row."""
    found = Table(title=f"{callers} callers, medians of {rounds} rounds, in turn in one run; callers share the machine")
    left = ("model", "servers")
    figures = ("texts/s", "p50 ms", "p99 ms", "server CPU ms/call", "busiest server's share", "rate / 1 process")
    for heading in (left[0], "texts a call", left[1], *figures):
        found.add_column(heading, justify="left" if heading in left else "right")
    for one in summaries:
        low, high = one.spread
        numbers = (f"{one.texts_per_second:,.0f}", f"{one.p50_ms:.1f}", f"{one.p99_ms:.1f}", f"{one.cpu_ms_per_call:.2f}")
        ratio = f"{one.ratio:.2f} ({low:.2f} to {high:.2f})"
        found.add_row(one.model, str(one.texts), one.side, *numbers, f"{one.busiest:.2f}", ratio)
    return found
