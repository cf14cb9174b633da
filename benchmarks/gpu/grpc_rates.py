"""Measures cloze over gRPC, by a server process on this machine, with texts of equal and of mixed lengths."""

from __future__ import annotations

import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import grpc
import torch
from bertscope.v1 import cloze_pb2, cloze_pb2_grpc

from benchmarks.gpu.report import Row
from benchmarks.lib.serving import Running, serving
from benchmarks.lib.texts import texts_of_lengths, write_bert_base

ROUNDS, ROUNDS_SECONDS = 5, 15.0
"""Rounds, and the seconds after which none begins."""
CALLS_AT_A_TIME = 16
CHANNELS = 4
"""Connections, each a client for the server."""
PATIENCE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Load:
    """Calls of a round, texts of a call, and tokens of a text."""

    calls: int
    texts: int
    length: int


@dataclass(frozen=True, slots=True)
class Rates:
    """Tokens per second of texts of equal lengths, and of mixed ones with as many tokens."""

    equal: float
    mixed: float


def measure_grpc(
    device: torch.device, precision: str, layers: int, load: Load, in_process: float, found: list[Rates]
) -> Iterator[Row]:
    """Yields rates beside that in the process, tokens per second (0: not measured), and adds them to `found`."""
    draw = random.Random(5)
    equal = [load.length] * (load.calls * load.texts)
    mixed = [draw.randint(max(4, load.length // 8), load.length * 15 // 8) for _ in equal]
    with tempfile.TemporaryDirectory() as name:
        folder = write_bert_base(Path(name), layers=layers)
        flags = ("--device", str(device), "--runtime", "torch", "--precision", precision, "--model", f"bert={folder}")
        with serving(*flags) as server:
            (rate, batches), (mixed_rate, mixed_batches) = (_measured(server, lengths, load) for lengths in (equal, mixed))
            real, padding = server.tokens()
    what = f"{precision}, {load.calls} calls of {load.texts} texts"
    beside = f"{in_process:,.0f} tokens/s" if in_process else ""
    share = f"{rate / in_process:.0%}" if in_process else ""
    yield f"{what} of {load.length} tokens / in the process", f"{rate:,.0f} tokens/s", beside, share
    spread = f"of {min(mixed)} to {max(mixed)}"
    yield (
        f"{what} {spread} / equal lengths",
        f"{mixed_rate:,.0f} tokens/s",
        f"{rate:,.0f} tokens/s",
        f"{mixed_rate / rate:.0%}",
    )
    yield "batches a call, mixed / equal", f"{mixed_batches:.2f}", f"{batches:.2f}", f"{mixed_batches / batches:.0%}"
    yield "padding in all batches", f"{padding / (padding + real):.1%}", "", ""
    found.append(Rates(rate, mixed_rate))


def _measured(server: Running, lengths: list[int], load: Load) -> tuple[float, float]:
    """Returns tokens per second, and batches a call."""
    before = server.metric("bertscope_batch_rows_count")
    rate, calls = asyncio.run(_rate(server.target, lengths, load))
    return rate, (server.metric("bertscope_batch_rows_count") - before) / calls


async def _rate(target: str, lengths: list[int], load: Load) -> tuple[float, int]:
    """Returns tokens per second, the median of up to ROUNDS after some calls to warm up, and the number of all calls."""
    texts = texts_of_lengths(lengths, mask=True)
    requests = [
        cloze_pb2.FillMaskRequest(texts=texts[begin : begin + load.texts], top_k=5)
        for begin in range(0, len(texts), load.texts)
    ]
    taken: list[float] = []
    async with AsyncExitStack() as channels:
        options = [("grpc.use_local_subchannel_pool", 1)]  # channels to one address share a connection otherwise
        opened = [await channels.enter_async_context(grpc.aio.insecure_channel(target, options)) for _ in range(CHANNELS)]
        stubs = cycle(map(cloze_pb2_grpc.ClozeServiceStub, opened))
        free = asyncio.Semaphore(CALLS_AT_A_TIME)

        async def call(request: cloze_pb2.FillMaskRequest) -> None:
            async with free:
                await next(stubs).FillMask(request, timeout=PATIENCE_SECONDS)

        warm_up = requests[:CALLS_AT_A_TIME]
        await asyncio.gather(*map(call, warm_up))
        while len(taken) < ROUNDS and sum(taken) < ROUNDS_SECONDS:
            began = time.perf_counter()
            await asyncio.gather(*map(call, requests))
            taken.append(time.perf_counter() - began)
    return sum(lengths) / statistics.median(taken), len(warm_up) + len(taken) * len(requests)
