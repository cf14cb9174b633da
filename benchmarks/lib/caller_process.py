"""The process of callers: `python -m benchmarks.lib.caller_process < Calls (pickled) > Answers (pickled)`."""

from __future__ import annotations

import pickle
import sys

import grpc
import uvloop

from benchmarks.lib.calls import Answers, Calls, closed_loop

OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.lb_policy_name", "round_robin"),  # of several addresses
]


async def _run(calls: Calls) -> Answers:
    async with grpc.aio.insecure_channel(calls.target, OPTIONS) as channel:
        unary: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(calls.method)
        stream: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(calls.method)

        async def ask(_: int) -> int:
            if calls.streaming:
                return sum([len(message) async for message in stream(calls.request)])
            if calls.refused:
                return await _refused(unary(calls.request))
            return len(await unary(calls.request))

        size = await ask(0)
        answers = await closed_loop(ask, calls.callers, calls.seconds, calls.servers)
    answers.reply_bytes = size
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
