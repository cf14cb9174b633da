"""Runs one server with all cores and several with a part of them each, and the ways in which callers reach the latter."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from benchmarks.lib.cores import available, on_cores
from benchmarks.lib.serving import Running, serving
from tools.deploy.envoy import PROGRAM, Envoy


@dataclass(frozen=True, slots=True)
class Side:
    """Servers, and the address at which callers reach all of them."""

    title: str
    target: str
    servers: Sequence[Running]

    def calls(self) -> list[float]:
        """Returns how many calls each server has answered so far."""
        return [server.metric("bertscope_requests_total", code="OK") for server in self.servers]


def parts(cores: Sequence[int], processes: int) -> list[list[int]]:
    """Returns each process's cores: neighbours, as equally many as can be. With more processes than cores, some share one."""
    if processes >= len(cores):
        return [[cores[place % len(cores)]] for place in range(processes)]
    bounds = [place * len(cores) // processes for place in range(processes + 1)]
    return [list(cores[begin:end]) for begin, end in pairwise(bounds)]


@contextlib.contextmanager
def running(flags: Sequence[str], processes: int, module: str, *, divide: bool) -> Iterator[list[Side]]:
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
            Side("1 process", single.target, [single]),
            Side(f"{processes} processes, their addresses", addresses, several),
        ]
        if PROGRAM.exists():
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            envoy = stack.enter_context(Envoy(folder, [server.target for server in several]))
            sides.append(Side(f"{processes} processes, Envoy", envoy.target, several))
        yield sides
