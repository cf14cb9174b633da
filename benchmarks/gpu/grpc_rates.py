"""Measures cloze over gRPC, by a server process on this machine, with texts of equal and of mixed lengths."""

from __future__ import annotations

import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import torch
from bertscope.v1 import cloze_pb2, cloze_pb2_grpc

from benchmarks.gpu.report import Row
from benchmarks.lib.serving import serving
from benchmarks.lib.texts import texts_of_lengths, write_bert_base

ROUNDS, ROUNDS_SECONDS = 5, 15.0
"""Rounds, and the seconds after which none begins."""
CALLS_AT_A_TIME = 16
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
            rates = [asyncio.run(_rate(server.target, lengths, load)) for lengths in (equal, mixed)]
            padding, real = (server.metric("bertscope_batch_tokens_total", kind=kind) for kind in ("padding", "real"))
    what = f"{precision}, {load.calls} calls of {load.texts} texts"
    beside = f"{in_process:,.0f} tokens/s" if in_process else ""
    share = f"{rates[0] / in_process:.0%}" if in_process else ""
    yield f"{what} of {load.length} tokens / in the process", f"{rates[0]:,.0f} tokens/s", beside, share
    spread = f"of {min(mixed)} to {max(mixed)}"
    yield (
        f"{what} {spread} / equal lengths",
        f"{rates[1]:,.0f} tokens/s",
        f"{rates[0]:,.0f} tokens/s",
        f"{rates[1] / rates[0]:.0%}",
    )
    yield "padding in all batches", f"{padding / (padding + real):.1%}", "", ""
    found.append(Rates(*rates))


async def _rate(target: str, lengths: list[int], load: Load) -> float:
    """Returns tokens per second, the median of up to ROUNDS after some calls to warm up."""
    texts = texts_of_lengths(lengths, mask=True)
    requests = [
        cloze_pb2.FillMaskRequest(texts=texts[begin : begin + load.texts], top_k=5)
        for begin in range(0, len(texts), load.texts)
    ]
    taken: list[float] = []
    async with grpc.aio.insecure_channel(target) as channel:
        stub = cloze_pb2_grpc.ClozeServiceStub(channel)
        free = asyncio.Semaphore(CALLS_AT_A_TIME)

        async def call(request: cloze_pb2.FillMaskRequest) -> None:
            async with free:
                await stub.FillMask(request, timeout=PATIENCE_SECONDS)

        await asyncio.gather(*map(call, requests[:CALLS_AT_A_TIME]))
        while len(taken) < ROUNDS and sum(taken) < ROUNDS_SECONDS:
            began = time.perf_counter()
            await asyncio.gather(*map(call, requests))
            taken.append(time.perf_counter() - began)
    return sum(lengths) / statistics.median(taken)
