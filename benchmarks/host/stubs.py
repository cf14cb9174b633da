"""Measures the CPU time of a client's calls beside a bare stub's, in a process of its own, both in turn.

python -m benchmarks.host.stubs < Pair (pickled) > Costs (pickled)
"""

from __future__ import annotations

import asyncio
import pickle
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import bertscope
import grpc
import numpy as np
from bertscope.v1 import (
    attention_pb2,
    attention_pb2_grpc,
    classification_pb2,
    classification_pb2_grpc,
    cloze_pb2,
    cloze_pb2_grpc,
)

from benchmarks.host.pairs import Costs, Pair

OPTIONS = [("grpc.max_receive_message_length", -1)]


@dataclass(frozen=True, slots=True)
class Method:
    """A method of both: the stub and its request, the client's arguments, and how their replies are read."""

    request: Any
    stub: Any
    arguments: Callable[[Any], dict[str, Any]]
    read_bare: Callable[[Any], object]
    read_ours: Callable[[Any], object]
    streaming: bool = False


def _predictions(texts: Any) -> list[tuple[str, float]]:
    return [(found.token, found.probability) for text in texts for mask in text.masks for found in mask.predictions]


def _labels(texts: Any) -> list[tuple[str, float]]:
    return [(found.label, found.probability) for text in texts for found in text.labels]


def _assembled(messages: list[attention_pb2.ExtractAttentionResponse]) -> list[np.ndarray]:
    """Assembles the maps of each text as a user of the stub would."""
    maps: list[np.ndarray] = []
    for message in messages:
        if message.HasField("header"):
            maps.append(np.empty(message.header.attention.shape, np.float32))
        else:
            data = message.chunk.data
            place = slice(message.chunk.offset, message.chunk.offset + len(data))
            maps[-1].reshape(-1).view(np.uint8)[place] = np.frombuffer(data, np.uint8)
    return maps


METHODS = {
    "FillMask": Method(
        cloze_pb2.FillMaskRequest,
        cloze_pb2_grpc.ClozeServiceStub,
        lambda asked: {"texts": list(asked.texts), "model": asked.model, "top_k": asked.top_k},
        lambda reply: _predictions(reply.results),
        _predictions,
    ),
    "Classify": Method(
        classification_pb2.ClassifyRequest,
        classification_pb2_grpc.ClassificationServiceStub,
        lambda asked: {"inputs": [each.text for each in asked.inputs], "model": asked.model},
        lambda reply: _labels(reply.results),
        _labels,
    ),
    "ExtractAttention": Method(
        attention_pb2.ExtractAttentionRequest,
        attention_pb2_grpc.AttentionServiceStub,
        lambda asked: {"inputs": [each.text for each in asked.inputs], "model": asked.model},
        _assembled,
        list,
        streaming=True,
    ),
}
CLIENT_METHODS = {"FillMask": "fill_mask", "Classify": "classify", "ExtractAttention": "extract_attention"}


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of a pair: how it connects, its call on a connection, and how its reply is read."""

    connect: Callable[[], Any]
    prepare: Callable[[Any], Callable[[], Any]]
    read: Callable[[Any], object]
    streaming: bool

    @contextmanager
    def open(self) -> Iterator[Callable[[], object]]:
        """Connects; yields a function that calls once."""
        with self.connect() as connection:
            call = self.prepare(connection)
            yield lambda: self.read(list(call()) if self.streaming else call())

    @asynccontextmanager
    async def open_async(self) -> AsyncIterator[Callable[[], Awaitable[object]]]:
        """Does the same for `grpc.aio`."""
        async with self.connect() as connection:
            call = self.prepare(connection)

            async def ask() -> None:
                self.read([message async for message in call()] if self.streaming else await call())

            yield ask

    def once(self) -> None:
        """Connects, calls once and disconnects."""
        with self.open() as ask:
            ask()

    async def once_async(self) -> None:
        """Does the same for `grpc.aio`."""
        async with self.open_async() as ask:
            await ask()


def _sides(pair: Pair) -> Sequence[_Side]:
    """Returns the stub's side and the client's."""
    method, name = METHODS[pair.method], CLIENT_METHODS[pair.method]
    asked = method.request.FromString(pair.request)
    arguments = method.arguments(asked)
    connect = grpc.aio.insecure_channel if pair.asynchronous else grpc.insecure_channel
    client = bertscope.AsyncClient if pair.asynchronous else bertscope.Client
    read_bare, read_ours = (method.read_bare, method.read_ours) if pair.reading else (bool, bool)
    return (
        _Side(
            partial(connect, pair.target, OPTIONS),
            lambda channel: partial(getattr(method.stub(channel), pair.method), asked),
            read_bare,
            method.streaming,
        ),
        _Side(
            partial(client, pair.target),
            lambda client: partial(getattr(client, name), **arguments),
            read_ours,
            method.streaming,
        ),
    )


def _threads(pair: Pair) -> Costs:
    """Measures `Client`."""
    with ExitStack() as stack, ThreadPoolExecutor(pair.callers) as pool:
        asks = [side.once if pair.connecting else stack.enter_context(side.open()) for side in _sides(pair)]

        def caller(ask: Callable[[], object], end: float) -> int:
            calls = 0
            while time.perf_counter() < end:
                ask()
                calls += 1
            return calls

        def cost(ask: Callable[[], object], seconds: float) -> float:
            cpu, end = time.process_time(), time.perf_counter() + seconds
            calls = sum(pool.map(caller, [ask] * pair.callers, [end] * pair.callers))
            return (time.process_time() - cpu) / calls

        rounds = [[cost(ask, pair.seconds) for ask in asks] for _ in range(1 + pair.rounds)]
    return Costs(*map(list, zip(*rounds[1:], strict=True)))


async def _tasks(pair: Pair) -> Costs:
    """Measures `AsyncClient`."""
    async with AsyncExitStack() as stack:
        asks = [
            side.once_async if pair.connecting else await stack.enter_async_context(side.open_async()) for side in _sides(pair)
        ]

        async def caller(ask: Callable[[], Awaitable[object]], end: float) -> int:
            calls = 0
            while time.perf_counter() < end:
                await ask()
                calls += 1
            return calls

        async def cost(ask: Callable[[], Awaitable[object]], seconds: float) -> float:
            cpu, end = time.process_time(), time.perf_counter() + seconds
            calls = sum(await asyncio.gather(*(caller(ask, end) for _ in range(pair.callers))))
            return (time.process_time() - cpu) / calls

        rounds = [[await cost(ask, pair.seconds) for ask in asks] for _ in range(1 + pair.rounds)]
    return Costs(*map(list, zip(*rounds[1:], strict=True)))


if __name__ == "__main__":
    given: Pair = pickle.load(sys.stdin.buffer)
    pickle.dump(asyncio.run(_tasks(given)) if given.asynchronous else _threads(given), sys.stdout.buffer)
