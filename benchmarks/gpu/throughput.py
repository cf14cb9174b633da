"""Measures tokens a second through the engine, which batches, launches and reads back, against the matrix peak, and the host's
share."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
import transformers
from bertscope_service.analyses.observers.masks import MaskObserver
from bertscope_service.encoders.base import Capabilities, TokenSequence
from bertscope_service.encoders.torch.architectures.architecture import Architecture
from bertscope_service.encoders.torch.architectures.attention import register_attention
from bertscope_service.encoders.torch.encoder import DTYPES, TorchEncoder
from bertscope_service.engine.engine import Engine
from bertscope_service.engine.limits import Limits as EngineLimits
from bertscope_service.engine.rows import Row as EngineRow
from bertscope_service.observability.metrics import Metrics

from benchmarks.gpu.device import ROUNDS, WARM_UPS, Limits, Row, synchronize
from benchmarks.gpu.encoder import encoder_flops

BATCH_TOKENS = (4096, 8192, 16_384, 32_768, 65_536)
"""Batch sizes among which the best is chosen; the third is the server's."""

BATCHES = 8
"""Batches that wait in each round: the device never waits for the next call."""

NOTHING_ASKED = np.zeros((1, 0), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Run:
    """A round: seconds from the first row's arrival to the last result, and how long the worker waited for the device in it."""

    seconds: float
    waited: float


def measure_throughput(
    name: str,
    config: transformers.BertConfig,
    device: torch.device,
    limits: Limits,
    lengths: tuple[int, ...],
    sizes: tuple[int, ...],
) -> Iterator[Row]:
    """Measures cloze in bf16 by a model of some shape, for texts of each length."""
    torch.manual_seed(5)
    model = transformers.BertForMaskedLM(config).eval().to(device, DTYPES["bf16"])
    model.set_attn_implementation(register_attention())
    encoder = TorchEncoder(Architecture(model), "bert", device, "bf16", Capabilities(masked_lm=True))
    for length in lengths:
        found = {size: middle(run_rounds(encoder, length, max(1, size // length))) for size in sizes}
        rows = {size: BATCHES * max(1, size // length) for size in sizes}
        best = max(found, key=lambda size: rows[size] / found[size].seconds)
        tokens, run = rows[best] * length, found[best]
        rate = encoder_flops(config, tokens, length) / run.seconds
        what = f"{name} bf16, texts of {length} through the engine, batches of {best} tokens"
        limit = f"{limits.flops / 1e12:.1f} TFLOP/s"
        done = f"{tokens / run.seconds:,.0f} tokens/s"
        # The last layer runs in full at the masks alone, so slightly fewer operations run than are counted.
        yield f"{what} / the matrix peak", f"{done}, {rate / 1e12:.1f} TFLOP/s", limit, f"{rate / limits.flops:.0%}"
        share = 1 - run.waited / run.seconds
        yield (
            f"{what}, time the worker did not wait for the device",
            f"{run.seconds - run.waited:.4f} s",
            f"{run.seconds:.4f} s",
            f"{share:.0%}",
        )


def run_rounds(encoder: TorchEncoder, length: int, rows_in_batch: int) -> list[Run]:
    """Runs ROUNDS of BATCHES full batches each, after WARM_UPS."""
    return asyncio.run(_rounds(encoder, length, rows_in_batch))[WARM_UPS:]


def middle(runs: list[Run]) -> Run:
    """Returns the run with the median time."""
    return sorted(runs, key=lambda run: run.seconds)[len(runs) // 2]


async def _rounds(encoder: TorchEncoder, length: int, rows_in_batch: int) -> list[Run]:
    count = BATCHES * rows_in_batch
    limits = EngineLimits(batch_tokens=rows_in_batch * length, queue_tokens=2 * count * length)
    engine = Engine(lambda _: limits, Metrics())
    draw = np.random.default_rng(5)
    texts = [draw.integers(999, 30_000, length).tolist() for _ in range(count)]
    runs = []
    try:
        for _ in range(ROUNDS + WARM_UPS):
            observers = (MaskObserver((length // 2,), 5, NOTHING_ASKED) for _ in texts)
            rows = [
                EngineRow(encoder, TokenSequence(ids, [0] * length), observer)
                for ids, observer in zip(texts, observers, strict=True)
            ]
            synchronize(encoder.device)
            with waits() as waited:
                began = time.perf_counter()
                await engine.run(rows, client="benchmark")
                runs.append(Run(time.perf_counter() - began, sum(waited)))
    finally:
        await engine.close()
    return runs


@contextlib.contextmanager
def waits() -> Iterator[list[float]]:
    """Collects the seconds of each wait for an event of a device; on a CPU there are none."""
    taken: list[float] = []
    synchronize_event = torch.cuda.Event.synchronize

    def timed(event: torch.cuda.Event) -> None:
        began = time.perf_counter()
        synchronize_event(event)
        taken.append(time.perf_counter() - began)

    torch.cuda.Event.synchronize = timed  # type: ignore[method-assign, assignment]
    try:
        yield taken
    finally:
        torch.cuda.Event.synchronize = synchronize_event  # type: ignore[method-assign]
