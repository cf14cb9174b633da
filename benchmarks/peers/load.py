"""Runs callers in a separate process, the same for every server: bytes out, bytes in, nothing parsed.

Reads jobs from stdin, a line of JSON each, and answers each with a line of JSON: the fields of `Load` and `Reading`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import grpc
import numpy as np

METHOD = "/inference.GRPCInferenceService/ModelInfer"
CALL_SECONDS = 120.0
WARM_UP_SHARE = 8
"""One uncounted call is made before this many counted ones."""

OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.lb_policy_name", "round_robin"),  # for a target of several addresses
]


@dataclass(frozen=True, slots=True)
class Load:
    """A closed loop: callers that each make one call after the other, until `calls` were made.

    request: the file with the bytes to send. reply_bytes: the length of every answer. texts: in a call.
    """

    target: str
    request: str
    reply_bytes: int
    callers: int
    calls: int
    texts: int


@dataclass(frozen=True, slots=True)
class Reading:
    """The callers' measurements: texts per second, and percentiles of a call's milliseconds."""

    rate: float
    p50: float
    p95: float


async def closed_loop(ask: Callable[[int], Awaitable[None]], callers: int, calls: int, texts: int) -> Reading:
    """Makes calls, `ask` with the number of each; every caller makes its next call when the last one is answered."""
    seconds: list[float] = []

    async def caller(numbers: range) -> None:
        for number in numbers:
            began = time.perf_counter()
            await ask(number)
            seconds.append(time.perf_counter() - began)

    async def all_callers(calls: int) -> float:
        began = time.perf_counter()
        await asyncio.gather(*(caller(range(first, calls, callers)) for first in range(callers)))
        return time.perf_counter() - began

    await all_callers(max(1, calls // WARM_UP_SHARE))  # the server was idle while others had their turn
    seconds.clear()
    taken = await all_callers(calls)
    p50, p95 = (1000 * float(np.percentile(seconds, share)) for share in (50, 95))
    return Reading(calls * texts / taken, p50, p95)


class Callers:
    """One connection for each server, kept from job to job."""

    def __init__(self) -> None:
        self._channels: dict[str, grpc.aio.Channel] = {}

    async def run(self, load: Load, request: bytes) -> Reading:
        """Runs a load. Raises ValueError for an answer of the wrong length, grpc's errors for none."""
        if load.target not in self._channels:
            self._channels[load.target] = grpc.aio.insecure_channel(load.target, OPTIONS)
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channels[load.target].unary_unary(METHOD)

        async def ask(_: int) -> None:
            reply = await call(request, timeout=CALL_SECONDS)
            if len(reply) != load.reply_bytes:
                raise ValueError(f"an answer of {load.target} has {len(reply)} bytes, not {load.reply_bytes}")

        return await closed_loop(ask, load.callers, load.calls, load.texts)


async def main() -> None:
    callers = Callers()
    while line := await asyncio.to_thread(sys.stdin.readline):
        load = Load(**json.loads(line))
        request = await asyncio.to_thread(Path(load.request).read_bytes)
        print(json.dumps(asdict(await callers.run(load, request))), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
