"""Sends traffic and records its outcomes. It is a separate process: it must cost little and never be late.

Requests were serialized before and replies are not parsed here. The clock of a call starts when it should have arrived, even if
it was sent later: a generator that delays its calls would hide how long they waited ("coordinated omission").
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import pickle
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import grpc
import grpc.aio
import numpy as np
import psutil
import uvloop

from benchmarks.load.traffic import NOT_SENT, ClosedLoop, OpenLoop, Record, Traffic

SAMPLE_SECONDS = 0.1
LEAST_TIMEOUT_SECONDS = 0.001
"""The timeout of a call that is sent after its deadline: gRPC does not handle a deadline in the past properly."""

REFUSED_PAUSE_SECONDS = 0.02
"""The pause of a caller in a closed loop whose call failed."""

STATUS_DETAILS = "grpc-status-details-bin"


@dataclass(slots=True)
class Log:
    """The outcomes of the calls so far; one entry in each list for each call."""

    arrived: list[float] = field(default_factory=list)
    sent: list[float] = field(default_factory=list)
    done: list[float] = field(default_factory=list)
    clients: list[int] = field(default_factory=list)
    requests: list[int] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)
    details: list[bytes] = field(default_factory=list)

    def expect(self, arrived: float, client: int, request: int) -> int:
        """Adds a call that arrives and returns its number. It counts as not sent until more is recorded."""
        self.arrived.append(arrived)
        self.clients.append(client)
        self.requests.append(request)
        self.codes.append(NOT_SENT)
        self.details.append(b"")
        for times in (self.sent, self.done):
            times.append(float("nan"))
        return len(self.arrived) - 1


class Usage:
    """Resources of the server, a proxy and the generator while calls are counted."""

    def __init__(self, traffic: Traffic) -> None:
        self._processes = tuple(pid and psutil.Process(pid) for pid in (traffic.server, traffic.proxy, os.getpid()))
        self.resident_bytes: list[int] = []
        self.cores = (0.0, 0.0, 0.0)

    async def watch(self, began: float, traffic: Traffic) -> None:
        await asyncio.sleep(began + traffic.begin - time.perf_counter())
        before, since = self._cpu_seconds(), time.perf_counter()
        # One sample at least, however late this loop is.
        while not self.resident_bytes or time.perf_counter() < began + traffic.end:
            self.resident_bytes.append(psutil.Process(traffic.server).memory_info().rss)
            await asyncio.sleep(SAMPLE_SECONDS)
        taken = time.perf_counter() - since
        server, proxy, generator = ((now - then) / taken for now, then in zip(self._cpu_seconds(), before, strict=True))
        self.cores = (server, proxy, generator)

    def _cpu_seconds(self) -> tuple[float, ...]:
        return tuple(sum(process.cpu_times()[:2]) if process else 0.0 for process in self._processes)


class Sender:
    """The clients, each a separate connection, and their results."""

    def __init__(self, traffic: Traffic, methods: list[grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]]) -> None:
        self._traffic = traffic
        self._methods = methods
        self.log = Log()
        self.began = time.perf_counter()

    def now(self) -> float:
        return time.perf_counter() - self.began

    async def call(self, number: int, deadline: float) -> None:
        """Sends a call of the log; `deadline` counts from its arrival."""
        log = self.log
        request = self._traffic.requests[log.requests[number]]
        log.sent[number] = sent = self.now()
        timeout = max(LEAST_TIMEOUT_SECONDS, log.arrived[number] + deadline - sent)
        try:
            log.details[number] = await self._methods[log.clients[number]](request, timeout=timeout)
            log.codes[number] = 0
        except grpc.aio.AioRpcError as error:
            log.codes[number] = error.code().value[0]
            log.details[number] = dict(error.trailing_metadata() or ()).get(STATUS_DETAILS, b"")
        log.done[number] = self.now()


async def open_loop(sender: Sender, traffic: OpenLoop) -> None:
    """Sends every call when it arrives; returns when the last one is answered."""
    arrivals, flying = traffic.arrivals, set[asyncio.Task[None]]()
    for at, client, request in zip(*map(np.ndarray.tolist, (arrivals.times, arrivals.clients, arrivals.requests)), strict=True):
        await asyncio.sleep(max(0.0, at - sender.now()))
        number = sender.log.expect(at, client, request)
        if len(flying) < traffic.most_in_flight:
            task = asyncio.create_task(sender.call(number, traffic.deadline))
            flying.add(task)
            task.add_done_callback(flying.discard)
    await asyncio.gather(*flying)


async def closed_loop(sender: Sender, traffic: ClosedLoop) -> None:
    """Runs every caller until the end."""

    async def caller(place: int) -> None:
        # Callers begin at different requests, or all would send the same ones at the same time.
        for turn in itertools.count(place):
            if sender.now() >= traffic.end:
                return
            number = sender.log.expect(sender.now(), place % traffic.clients, turn % len(traffic.requests))
            await sender.call(number, traffic.deadline)
            if sender.log.codes[number]:
                await asyncio.sleep(REFUSED_PAUSE_SECONDS)

    await asyncio.gather(*(caller(place) for place in range(traffic.callers)))


async def send(traffic: OpenLoop | ClosedLoop) -> Record:
    """Sends traffic to its end."""
    async with _methods(traffic) as methods:
        sender, usage = Sender(traffic, methods), Usage(traffic)
        watching = asyncio.create_task(usage.watch(sender.began, traffic))
        if isinstance(traffic, OpenLoop):
            await open_loop(sender, traffic)
        else:
            await closed_loop(sender, traffic)
        await watching
    log, (server, proxy, generator) = sender.log, usage.cores
    return Record(
        arrived=np.array(log.arrived),
        sent=np.array(log.sent),
        done=np.array(log.done),
        clients=np.array(log.clients, dtype=np.int64),
        requests=np.array(log.requests, dtype=np.int64),
        codes=np.array(log.codes, dtype=np.int64),
        details=log.details,
        resident_bytes=usage.resident_bytes,
        server_cores=server,
        proxy_cores=proxy,
        generator_cores=generator,
    )


@contextlib.asynccontextmanager
async def _methods(traffic: Traffic) -> AsyncIterator[list[grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]]]:
    """Yields the method on a separate connection for each client; all are connected."""
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
    async with AsyncExitStack() as stack:
        channels = [
            await stack.enter_async_context(grpc.aio.insecure_channel(traffic.target, options)) for _ in range(traffic.clients)
        ]
        for channel in channels:
            await channel.channel_ready()
        yield [channel.unary_unary(traffic.method) for channel in channels]


if __name__ == "__main__":
    pickle.dump(uvloop.run(send(pickle.load(sys.stdin.buffer))), sys.stdout.buffer)
