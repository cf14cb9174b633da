"""Measures how long one-text calls wait beside callers of many slow texts, and what the bound on a batch's time costs the
latter.

Two servers, one of which bounds interactive batches by their tokens only, are called in turn. Each caller is a connection.
"""

from __future__ import annotations

import argparse
import asyncio
import shlex
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc.aio
import numpy as np
from bertscope.v1 import cloze_pb2
from rich.console import Console
from rich.table import Table

from benchmarks.lib.cores import available, on_cores
from benchmarks.lib.measure import machine
from benchmarks.lib.serving import Running, serving
from benchmarks.lib.texts import texts_of_lengths, write_bert_base

METHOD = "/bertscope.v1.ClozeService/FillMask"
SHORT = "Paris is the capital of [MASK]."
SHORT_TOKENS = 9
SHORT_CALLERS = 4
CALLS_PER_SECOND = 4.0
"""The rate of all one-text callers together, when calls arrive at random."""

WARM_UP_SECONDS = 2.0
MODULES = {"bound": "bertscope_service", "without": "benchmarks.load.unbounded"}

Method = grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Heavy:
    """Callers that never pause, each with `texts` texts of `tokens` tokens in a call."""

    callers: int
    texts: int
    tokens: int
    masks: bool
    """True for texts of masks alone, false for one mask in a text."""

    def request(self) -> bytes:
        if self.masks:
            texts = [" ".join(["[MASK]"] * (self.tokens - 2))] * self.texts
        else:
            texts = texts_of_lengths([self.tokens] * self.texts, mask=True)
        return _request(texts)


@dataclass(frozen=True, slots=True)
class Round:
    """The milliseconds of each one-text call, and the texts per second of the heavy callers."""

    waits: list[float]
    rate: float = 0.0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks heavy", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="rounds, at least 5 for a figure to quote")
    parser.add_argument("--seconds", type=float, default=8.0, help="counted in each round, of each side")
    parser.add_argument("--callers", type=int, default=1, help="heavy ones")
    parser.add_argument("--texts", type=int, default=64, help="in a call of theirs")
    parser.add_argument("--tokens", type=int, default=252, help="of each text, [CLS] and [SEP] included")
    parser.add_argument("--one-mask", action="store_true", help="in each text of theirs, in place of nothing but masks")
    parser.add_argument("--bert-base", action="store_true", help="random weights in that shape, in place of the embedded model")
    parser.add_argument("--serve", default="--threads 1", metavar="FLAGS", help="flags of the servers, in one string")
    options = parser.parse_args(arguments)
    heavy = Heavy(options.callers, options.texts, options.tokens, not options.one_mask)
    with ExitStack() as stack:
        flags = shlex.split(options.serve)
        if options.bert_base:
            folder = write_bert_base(Path(stack.enter_context(tempfile.TemporaryDirectory())))
            flags += ["--model", f"bert-base={folder}"]
        cores = available()
        with on_cores(cores[:1]):
            servers = {side: stack.enter_context(serving(*flags, module=module)) for side, module in MODULES.items()}
        with on_cores(cores[1:2]):
            _print(asyncio.run(_measure(servers, heavy, options.rounds, options.seconds)), options.rounds)
    return 0


async def _measure(
    servers: dict[str, Running], heavy: Heavy, rounds: int, seconds: float
) -> dict[tuple[str, str], list[Round]]:
    """Returns rounds by (arrivals of one-text calls, side)."""
    found: dict[tuple[str, str], list[Round]] = {}
    for server in servers.values():
        await _quiet(server, WARM_UP_SECONDS)
        await _beside(server, heavy, _closed, WARM_UP_SECONDS)
    for number in range(rounds):
        for side, server in servers.items():
            found.setdefault(("idle, in a loop", side), []).append(await _quiet(server, seconds / 4))
        for name, send in (("in a loop", _closed), ("at random", _open)):
            for side, server in servers.items():
                found.setdefault((name, side), []).append(await _beside(server, heavy, send, seconds))
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
    return found


async def _quiet(server: Running, seconds: float) -> Round:
    async with _methods(server, SHORT_CALLERS) as methods:
        return Round(await _closed(methods, seconds))


async def _beside(
    server: Running, heavy: Heavy, send: Callable[[list[Method], float], Awaitable[list[float]]], seconds: float
) -> Round:
    """Makes one-text calls while heavy callers never pause; counted from when the first of their texts have run."""
    async with _methods(server, SHORT_CALLERS) as methods, _methods(server, heavy.callers) as theirs:
        request = heavy.request()

        async def caller(method: Method) -> None:
            while True:
                await method(request)

        before = await _tokens(server)
        tasks = [asyncio.create_task(caller(method)) for method in theirs]
        while await _tokens(server) == before:  # noqa: ASYNC110 - waits for another process
            await asyncio.sleep(0.05)
        before, began = await _tokens(server), time.perf_counter()
        waits = await send(methods, seconds)
        tokens, taken = await _tokens(server) - before, time.perf_counter() - began
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if not isinstance(outcome, asyncio.CancelledError):
                raise RuntimeError("a heavy caller ended early") from outcome
    while await asyncio.to_thread(server.metric, "bertscope_requests_in_flight"):  # noqa: ASYNC110 - as above
        await asyncio.sleep(0.05)
    async with _methods(server, 1) as methods:
        await _timed(methods[0])  # behind the batch at work, which would slow down the other server on the same core
    return Round(waits, (tokens - SHORT_TOKENS * len(waits)) / heavy.tokens / taken)


async def _closed(methods: list[Method], seconds: float) -> list[float]:
    """Runs callers that each send the next call when the last one is answered."""
    end, waits = time.perf_counter() + seconds, list[float]()

    async def caller(method: Method) -> None:
        while time.perf_counter() < end:
            waits.append(await _timed(method))

    await asyncio.gather(*map(caller, methods))
    return waits


async def _open(methods: list[Method], seconds: float) -> list[float]:
    """Sends calls by a Poisson process, however many wait."""
    draw, tasks = np.random.default_rng(5), list[asyncio.Task[float]]()
    at, began = draw.exponential(1 / CALLS_PER_SECOND), time.perf_counter()
    while at < seconds:
        await asyncio.sleep(max(0.0, began + at - time.perf_counter()))
        tasks.append(asyncio.create_task(_timed(methods[draw.integers(len(methods))])))
        at += draw.exponential(1 / CALLS_PER_SECOND)
    return await asyncio.gather(*tasks)


async def _timed(method: Method) -> float:
    began = time.perf_counter()
    await method(_request([SHORT]))
    return (time.perf_counter() - began) * 1000


async def _tokens(server: Running) -> float:
    return await asyncio.to_thread(server.metric, "bertscope_batch_tokens_total", kind="real")


def _request(texts: list[str]) -> bytes:
    return cloze_pb2.FillMaskRequest(texts=texts, top_k=5).SerializeToString()


@asynccontextmanager
async def _methods(server: Running, count: int) -> AsyncIterator[list[Method]]:
    """Yields FillMask on `count` separate connections."""
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
    async with AsyncExitStack() as stack:
        channels = [await stack.enter_async_context(grpc.aio.insecure_channel(server.target, options)) for _ in range(count)]
        for channel in channels:
            await channel.channel_ready()
        yield [channel.unary_unary(METHOD) for channel in channels]


def _print(found: dict[tuple[str, str], list[Round]], rounds: int) -> None:
    title = f"{SHORT_CALLERS} one-text callers; medians of {rounds} rounds (lowest to highest), servers in turn"
    table = Table(title=title, caption="servers on one core, callers on another")
    for heading in ("one-text callers", "server", "calls", "p50 ms", "p95 ms", "p99 ms", "heavy callers, texts/s"):
        table.add_column(heading, justify="left" if heading in ("one-text callers", "server") else "right")
    for (name, side), parts in found.items():
        percentiles = np.percentile([np.percentile(part.waits, (50, 95, 99)) for part in parts], (50, 0, 100), axis=0)
        cells = [f"{middle:.0f} ({low:.0f} to {high:.0f})" for middle, low, high in percentiles.T]
        rates = [part.rate for part in parts]
        rate = f"{np.median(rates):.2f} ({min(rates):.2f} to {max(rates):.2f})" if max(rates) else ""
        table.add_row(name, side, str(sum(len(part.waits) for part in parts)), *cells, rate)
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(table)
    for name in dict.fromkeys(name for name, _ in found if found[name, "bound"][0].rate):
        bound, without = found[name, "bound"], found[name, "without"]
        ratios = [ours.rate / theirs.rate for ours, theirs in zip(bound, without, strict=True)]
        line = f"{np.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        console.print(f"texts/s of heavy callers, with the bound / without, one-text callers {name}: {line}", highlight=False)
    console.print(machine(), highlight=False)
