"""Compares one server process with all cores with several that have a part of them each.

The cloze calls are answered by the embedded model, and by one that computes nothing, where the process itself is the limit.
"""

from __future__ import annotations

import contextlib
import shlex
import tempfile
from argparse import Namespace
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median

from bertscope.v1 import cloze_pb2
from bertscope_service.embedded import EMBEDDED_FOLDER

from benchmarks.host.command import SERVER as FIXED_ENCODER
from benchmarks.host.questions import LARGE, write_models
from benchmarks.lib.calls import FILL_MASK, Answers, Calls, send
from benchmarks.lib.cores import available, on_cores
from benchmarks.lib.options import ROUNDS, flag, option, seconds, serve
from benchmarks.lib.report import Report
from benchmarks.lib.serving import Running, serving
from benchmarks.lib.sides import Row, compared, take_turns
from benchmarks.lib.texts import cloze_texts
from tools.deploy.envoy import PROGRAM, Envoy

FIXED, EMBEDDED = "no model", "bertscope-mini"
OPTIONS = (
    ROUNDS,
    seconds(3.0, "of each side in each round"),
    serve("--runtime onnx"),
    option("--model", "repeatable; both unless given", action="append", choices=(FIXED, EMBEDDED)),
    option("--processes", "of the side with several", 2),
    option("--texts", "texts in a call", [1, 64], type=int, nargs="+"),
    option("--callers", "calls at a time", 32),
    flag("--share", "all processes share all cores: for a GPU, with --serve '--device cuda'"),
)


@dataclass(frozen=True, slots=True)
class Side:
    """Servers, and the address at which callers reach all of them. `busiest` gets, in each turn, the share of the server that
    answered most, of all calls: 0.5 of two is even."""

    title: str
    target: str
    servers: Sequence[Running]
    busiest: list[float]

    def ask(self, request: bytes, callers: int, lasting: float) -> Answers:
        """Runs callers for some seconds."""
        before = self._answered()
        servers = tuple(server.process.pid for server in self.servers)
        answers = send(Calls(self.target, FILL_MASK, request, callers, lasting, servers))
        calls = [now - then for now, then in zip(self._answered(), before, strict=True)]
        self.busiest.append(max(calls) / max(1.0, sum(calls)))
        return answers

    def _answered(self) -> list[float]:
        return [server.metric("bertscope_requests_total", code="OK") for server in self.servers]


def report(options: Namespace) -> Report:
    """Returns the rates of each side, for each model and number of texts in a call."""
    busiest = defaultdict[str, list[float]](list)
    rows = [row for model in options.model or (FIXED, EMBEDDED) for row in _measure(model, options, busiest)]
    remarks = [f"{title}: the busiest server answered {median(shares):.2f} of the calls" for title, shares in busiest.items()]
    return compared(f"{options.callers} callers; CPU is that of all servers of a side, without Envoy", rows, remarks)


def _measure(model: str, options: Namespace, busiest: dict[str, list[float]]) -> Iterator[Row]:
    """Yields a row for each number of texts; the sides take turns."""
    with tempfile.TemporaryDirectory() as folder:
        if model == FIXED:
            name, module, flags = LARGE, FIXED_ENCODER, [*write_models(Path(folder)), "--runtime", "torch"]
        else:
            name, module, flags = EMBEDDED, "bertscope_service", ["--model", f"{EMBEDDED}={EMBEDDED_FOLDER}"]
            flags += shlex.split(options.serve)
        with _running(flags, options.processes, module, divide=not options.share) as sides:
            for texts in options.texts:
                request = cloze_pb2.FillMaskRequest(model=f"models/{name}", texts=cloze_texts()[:texts], top_k=5)
                data = request.SerializeToString()
                asks = {side.title: partial(side.ask, data, options.callers, options.seconds) for side in sides}
                yield take_turns(f"{model}, {texts} texts a call", texts, asks, options.rounds)
            for side in sides:
                busiest[side.title] += side.busiest


def parts(cores: Sequence[int], processes: int) -> list[list[int]]:
    """Returns each process's cores: neighbours, as equally many as can be. With more processes than cores, some share one."""
    if processes >= len(cores):
        return [[cores[place % len(cores)]] for place in range(processes)]
    bounds = [place * len(cores) // processes for place in range(processes + 1)]
    return [list(cores[begin:end]) for begin, end in pairwise(bounds)]


@contextlib.contextmanager
def _running(flags: Sequence[str], processes: int, module: str, *, divide: bool) -> Iterator[list[Side]]:
    """Runs all servers, and yields the sides: one process; several, by several addresses in the client; several behind Envoy,
    if that is installed.

    `divide`: the cores are divided among the processes, each with as many threads. Otherwise all processes share them, as they
    share a GPU.
    """
    cores = available()
    with ExitStack() as stack:

        def start(own: Sequence[int]) -> Running:
            threads = ["--threads", str(len(own))] if own else []
            with on_cores(own):
                return stack.enter_context(serving(*threads, *flags, module=module))

        single = start(cores if divide else ())
        several = [start(own if divide else ()) for own in parts(cores or [0], processes)]
        addresses = "ipv4:" + ",".join(server.target for server in several)
        sides = [
            Side("1 process", single.target, [single], []),
            Side(f"{processes} processes, their addresses", addresses, several, []),
        ]
        if PROGRAM.exists():
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            envoy = stack.enter_context(Envoy(folder, [server.target for server in several]))
            sides.append(Side(f"{processes} processes, Envoy", envoy.target, several, []))
        yield sides
