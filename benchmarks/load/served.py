"""Runs the server that gets too many calls, on cores of its own, and an Envoy before it if there shall be one."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.lib.cores import available, on_cores, split
from benchmarks.lib.serving import Running, serving
from tools.deploy.envoy import Envoy


@dataclass(frozen=True, slots=True)
class Served:
    """A server under load, and how its calls reach it."""

    server: Running
    target: str
    """The address that the load is sent to: the server's own, or Envoy's."""
    proxy: int | None = None
    """Envoy's process id."""
    where: str = "client and server share the machine's cores"
    """Where everything runs, for people."""


@contextlib.contextmanager
def served(*flags: str, pin: bool, envoy: bool) -> Iterator[Served]:
    """Runs a server with some flags.

    With `pin` it gets cores of its own and as many threads, and what is started while this is entered gets the others, Envoy
    included. A machine with a single core pins nothing.
    """
    own, others = split(available()) if pin else ([], [])
    with ExitStack() as stack:
        with on_cores(own):
            server = stack.enter_context(serving(*(("--threads", str(len(own))) if own else ()), *flags))
        stack.enter_context(on_cores(others))
        where = _where(own, others, envoy=envoy)
        if not envoy:
            yield Served(server, server.target, None, where)
            return
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        proxy = stack.enter_context(Envoy(folder, [server.target]))
        yield Served(server, proxy.target, proxy.process_id, where)


def _where(own: list[int], others: list[int], *, envoy: bool) -> str:
    callers = "client and Envoy" if envoy else "client"
    if not own:
        return f"{callers} and server share the machine's cores"
    return f"server on {_cores(own)}, {callers} on {_cores(others)}"


def _cores(cores: list[int]) -> str:
    return f"core {cores[0]}" if len(cores) == 1 else f"{len(cores)} cores"
