"""Callers in a closed loop, in a process of their own: each sends its next call when the last one is answered.

Calls and their outcome are pickled between processes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import psutil

from benchmarks.lib.processes import cpu_seconds, run_module, thread_seconds

FILL_MASK = "/bertscope.v1.ClozeService/FillMask"
WARM_UP_SHARE = 8
"""Callers warm up for this part of the counted time: a server may have been idle while others had their turn."""


@dataclass(frozen=True, slots=True)
class Calls:
    """The request to send, the server to send it to, and for how long."""

    target: str
    method: str
    request: bytes
    callers: int
    seconds: float
    servers: tuple[int, ...] = ()
    """Process ids of the servers behind the target, whose CPU is measured."""
    streaming: bool = False
    refused: bool = False
    """True if the server is full: every call has to be refused."""


@dataclass(slots=True)
class Answers:
    """The outcome of calls: the seconds of each call, the seconds that passed, and the servers' CPU seconds meanwhile."""

    latencies: list[float] = field(default_factory=list)
    elapsed: float = 0.0
    cpu: float = 0.0
    threads: dict[int, float] = field(default_factory=dict)
    """CPU seconds of each of the servers' threads, by its number; empty except on Linux."""
    reply_bytes: int = 0
    """All messages of one reply together."""

    @property
    def rate(self) -> float:
        """Calls a second."""
        return len(self.latencies) / self.elapsed

    @property
    def cpu_per_call(self) -> float:
        """CPU seconds of the servers for a call."""
        return self.cpu / len(self.latencies)


def send(calls: Calls) -> Answers:
    """Sends the calls from a process of its own."""
    answers: Answers = run_module("benchmarks.lib.caller_process", calls, calls.seconds)
    return answers


async def closed_loop(
    ask: Callable[[int], Awaitable[object]], callers: int, seconds: float, servers: Sequence[int] = ()
) -> Answers:
    """Makes calls, `ask` with the number of each, after a warm-up that is not counted."""
    answers, processes = Answers(), [psutil.Process(server) for server in servers]

    async def caller(number: int, end: float) -> None:
        while (began := time.perf_counter()) < end:
            await ask(number)
            answers.latencies.append(time.perf_counter() - began)
            number += callers

    async def all_callers(lasting: float) -> float:
        began = time.perf_counter()
        await asyncio.gather(*(caller(number, began + lasting) for number in range(callers)))
        return time.perf_counter() - began

    await all_callers(seconds / WARM_UP_SHARE)
    answers.latencies.clear()
    cpu, before = sum(map(cpu_seconds, processes)), thread_seconds(servers)
    answers.elapsed = await all_callers(seconds)
    answers.cpu = sum(map(cpu_seconds, processes)) - cpu
    answers.threads = {thread: used - before.get(thread, 0.0) for thread, used in thread_seconds(servers).items()}
    return answers


def percentiles(found: Sequence[Answers], *shares: float) -> list[float]:
    """Returns percentiles of the milliseconds of calls, of all rounds together."""
    latencies = np.concatenate([answers.latencies for answers in found])
    return [1000 * float(value) for value in np.percentile(latencies, shares)]
