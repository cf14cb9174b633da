"""Measures tokens a second through the engine, which batches, launches and reads back, against the matrix peak, and the host's
share."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import transformers
from bertscope_service.encoders.base import Capabilities
from bertscope_service.encoders.torch.architectures import ARCHITECTURES
from bertscope_service.encoders.torch.architectures.attention import register_attention
from bertscope_service.encoders.torch.encoder import DTYPES, TorchEncoder
from bertscope_service.engine.engine import Engine
from bertscope_service.engine.limits import Limits as EngineLimits
from bertscope_service.observability.metrics import Metrics

from benchmarks.gpu.cloze import cloze_rows
from benchmarks.gpu.device import ROUNDS, WARM_UPS, Limits, synchronize, tera
from benchmarks.gpu.report import Row

BATCH_TOKENS = (4096, 8192, 16_384, 32_768, 65_536)
"""Sizes of batches; the third is the server's."""

BATCHES = 8
"""Batches that wait in each round: the device never waits for the next call."""


@dataclass(frozen=True, slots=True)
class Run:
    """A round: seconds from the first row's arrival to the last result, and how long the worker waited for the device in it."""

    seconds: float
    waited: float


def random_cloze(config: transformers.BertConfig, device: torch.device, precision: str) -> TorchEncoder:
    """Returns a model of a shape with random weights: time depends on the shape alone."""
    torch.manual_seed(5)
    model = transformers.BertForMaskedLM(config).eval().to(device, DTYPES[precision])
    model.set_attn_implementation(register_attention())
    return TorchEncoder(ARCHITECTURES["bert"](model), "bert", device, precision, Capabilities(masked_lm=True))


def encoder_flops(config: transformers.BertConfig, tokens: int, length: int) -> float:
    """Returns the operations of all layers, for this many tokens in texts of `length`: twice the multiply-adds of the
    projections, of attention and of the two feed-forward matrices."""
    per_token = 4 * config.hidden_size**2 + 2 * config.hidden_size * config.intermediate_size + 2 * length * config.hidden_size
    return float(2 * config.num_hidden_layers * per_token * tokens)


def measure_throughput(
    name: str,
    config: transformers.BertConfig,
    encoder: TorchEncoder,
    limits: Limits,
    length: int,
    sizes: tuple[int, ...],
    found: list[tuple[float, float]],
) -> Iterator[Row]:
    """Measures cloze by a model of some shape in batches of these numbers of tokens, for texts of a length; adds the best rate,
    tokens per second, to `found`, with its share of the matrix peak."""
    rates = {}
    for size in sizes:
        count = max(1, size // length)
        run = middle(run_rounds(encoder, length, count))
        tokens = BATCHES * count * length
        # The last layer runs in full at the masks alone, so slightly fewer operations run than are counted.
        flops = encoder_flops(config, tokens, length) / run.seconds
        rates[size] = tokens / run.seconds, flops / limits.flops
        yield (
            f"{name}, texts of {length}, batches of {size:,} tokens / the peak",
            f"{rates[size][0]:,.0f} tokens/s",
            tera(flops),
            f"{rates[size][1]:.0%}",
        )
        share = 1 - run.waited / run.seconds
        yield (
            "  its worker did not wait for the device",
            f"{run.seconds - run.waited:.4f} s",
            f"of {run.seconds:.4f} s",
            f"{share:.0%}",
        )
    found.append(max(rates.values()))


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
    runs = []
    try:
        for _ in range(ROUNDS + WARM_UPS):
            rows = cloze_rows(encoder, length, count)
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
