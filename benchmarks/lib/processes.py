"""Runs processes during a measurement, and ends them afterwards, whatever happens."""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parents[2]
"""The folder that contains `benchmarks`."""

SPARE_SECONDS = 60.0
"""Additional time for the start of a process and for writing its result."""

STOP_SECONDS = 60.0
LOOK_SECONDS = 0.01


def run_module(module: str, given: object, seconds: float) -> Any:
    """Returns the result of a module, which reads `given` from standard input and writes its result, both pickled.

    Raises TimeoutExpired if that takes much longer than `seconds`, and CalledProcessError if it fails.
    """
    command, limit = [sys.executable, "-m", module], seconds + SPARE_SECONDS
    done = subprocess.run(command, input=pickle.dumps(given), stdout=subprocess.PIPE, cwd=ROOT, check=True, timeout=limit)
    return pickle.loads(done.stdout)


@contextlib.contextmanager
def process(
    command: Sequence[str], log: Path | None = None, environment: Mapping[str, str] | None = None
) -> Iterator[psutil.Process]:
    """Runs a command, its output in a file or where ours goes. It and its children are gone when this leaves."""
    with contextlib.ExitStack() as stack:
        output = stack.enter_context(log.open("w")) if log else None
        errors = subprocess.STDOUT if log else None
        started = psutil.Popen(command, stdout=output, stderr=errors, env={**os.environ, **(environment or {})})
        try:
            yield started
        finally:
            family = [started, *children(started)]
            with contextlib.suppress(psutil.NoSuchProcess):
                started.terminate()
            _, alive = psutil.wait_procs(family, STOP_SECONDS)
            for one in alive:
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.kill()
            psutil.wait_procs(alive, STOP_SECONDS)


def children(started: psutil.Process) -> list[psutil.Process]:
    """Returns the processes that a process has started, and theirs; none of one that has ended."""
    try:
        return started.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def cpu_seconds(started: psutil.Process) -> float:
    """Returns the CPU seconds that a process has used."""
    return float(sum(started.cpu_times()[:2]))


def thread_seconds(servers: Sequence[int]) -> dict[int, float]:
    """Returns the CPU seconds of each thread of some processes, by the thread's number. Only Linux says them."""
    found = {}
    for server in servers:
        for task in Path(f"/proc/{server}/task").glob("*"):
            with contextlib.suppress(OSError):  # the thread has ended
                found[int(task.name)] = int((task / "schedstat").read_text().split()[0]) / 1e9
    return found


def wait_until(condition: Callable[[], bool], limit: float, started: psutil.Process, log: Path | None = None) -> None:
    """Returns when a condition holds. Raises RuntimeError, with the end of its log, if the process ends before that or it takes
    longer than `limit` seconds."""
    ends = time.monotonic() + limit
    while not condition():
        running = started.is_running() and started.status() != psutil.STATUS_ZOMBIE
        if not running or time.monotonic() > ends:
            said = log.read_text(errors="replace")[-2000:] if log else ""
            raise RuntimeError(f"a process {f'was not ready within {limit:g} s' if running else 'ended'}: {said}")
        time.sleep(LOOK_SECONDS)
