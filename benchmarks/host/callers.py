"""Callers in a closed loop, in a process of their own: each sends its next call when the last one is answered.

python -m benchmarks.host.callers < Calls (pickled) > Answers (pickled)
"""

from __future__ import annotations

import asyncio
import pickle
import sys
import time

import grpc
import psutil
import uvloop

from benchmarks.host.calls import Answers, Calls

OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.lb_policy_name", "round_robin"),  # of several addresses
]


async def _run(calls: Calls) -> Answers:
    answers, servers = Answers(), [psutil.Process(server) for server in (calls.server, *calls.beside)]

    def cpu_seconds() -> float:
        return sum(sum(server.cpu_times()[:2]) for server in servers)

    async with grpc.aio.insecure_channel(calls.target, OPTIONS) as channel:
        unary: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(calls.method)
        stream: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(calls.method)

        async def ask() -> int:
            if calls.streaming:
                return sum([len(message) async for message in stream(calls.request)])
            if calls.refused:
                return await _refused(unary(calls.request))
            return len(await unary(calls.request))

        async def caller(end: float) -> None:
            while (began := time.perf_counter()) < end:
                await ask()
                answers.latencies.append(time.perf_counter() - began)

        for _ in range(3):  # warms up
            answers.reply_bytes = await ask()
        cpu, began = cpu_seconds(), time.perf_counter()
        await asyncio.gather(*(caller(began + calls.seconds) for _ in range(calls.callers)))
        answers.elapsed = time.perf_counter() - began
        answers.cpu = cpu_seconds() - cpu
    return answers


async def _refused(call: grpc.aio.UnaryUnaryCall[bytes, bytes]) -> int:
    """Waits for a refusal. Returns the bytes of its details. Raises AssertionError if the call is answered."""
    try:
        await call
    except grpc.aio.AioRpcError as error:
        if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
            return sum(len(value) for _, value in error.trailing_metadata() or ())
        raise
    raise AssertionError("the server answered a call though it was full")


if __name__ == "__main__":
    pickle.dump(uvloop.run(_run(pickle.load(sys.stdin.buffer))), sys.stdout.buffer)
