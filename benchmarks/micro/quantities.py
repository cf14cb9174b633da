"""Times norms of attention and rollouts against weights, in-process, and the memory that they take beyond them.

Runs on as many threads as PyTorch takes: OMP_NUM_THREADS=1 for one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch
from bertscope_service.analyses.observers.quantities import Quantity, run_quantity
from bertscope_service.checkpoints.sources import inspect
from bertscope_service.embedded import EMBEDDED_FOLDER
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.models.runtimes import RuntimeRequest, RuntimeSettings, read_encoders
from bertscope_service.models.working_memory import working_bytes

from benchmarks.lib.measure import Claim, Pair, per_second, seconds
from benchmarks.lib.texts import write_bert_base

LENGTHS, BATCHES = (32, 128), (1, 8)
MIB = 1024 * 1024
GOALS = {Quantity.NORMS: "at least 0.67", Quantity.LAYER_NORMS: "at least 0.67"}
COMPARED = (
    Quantity.NORMS,
    Quantity.LAYER_NORMS,
    Quantity.LAYER_OUTPUT_NORMS,
    Quantity.ROLLOUT,
    Quantity.ALTI,
    Quantity.GLOBENC,
)


def claims(rounds: int) -> Iterator[Claim]:
    """Texts per second whose numbers are computed on all layers and left on the device; every quantity in every round."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        for folder in (EMBEDDED_FOLDER, write_bert_base(root / "bert-base")):
            source = inspect(folder)
            for runtime in ("torch", "onnx"):
                settings = RuntimeSettings(root / f"cache-{folder.name}")
                (encoder,) = read_encoders(
                    source, source.digest(lambda _: None), RuntimeRequest(runtime, "fp32", device), settings
                )
                for length in LENGTHS:
                    for size in BATCHES:
                        where = f"{folder.name}, {runtime}, {size} x {length} tokens"
                        yield from compare(encoder, where, length, size, rounds)


def compare(encoder: Encoder, where: str, length: int, size: int, rounds: int) -> Iterator[Claim]:
    """All quantities against weights, and their memory, in texts of one length."""
    batch = [TokenSequence([101, *range(2000, 1998 + length), 102], [0] * length)] * size
    times = {quantity: list[float]() for quantity in (Quantity.WEIGHTS, *COMPARED)}
    for quantity in times:
        run(encoder, batch, quantity)
    for _ in range(rounds):
        for quantity, taken in times.items():
            taken.append(seconds(lambda: run(encoder, batch, quantity)))  # noqa: B023 - called at once
    measured = encoder.runtime == "torch"  # ONNX Runtime's graphs in parts have no memory of their own to return
    memory = {
        quantity: working_bytes(encoder.device, lambda: run(encoder, batch, quantity)) if measured else 0  # noqa: B023
        for quantity in times
    }
    for quantity in COMPARED:
        more = f", {memory[quantity] / MIB:.0f} MiB against {memory[Quantity.WEIGHTS] / MIB:.0f}" if measured else ""
        what = f"{where}, {quantity.value} / weights{more}"
        yield Pair(times[quantity], times[Quantity.WEIGHTS]).claim(what, GOALS.get(quantity, ""), per_second(size, "texts"))


@torch.inference_mode()
def run(encoder: Encoder, batch: list[TokenSequence], quantity: Quantity) -> None:
    """Keeps a copy of every map, as ExtractAttention does."""
    layers = encoder.shape.layers
    kept: list[torch.Tensor] = []
    run_quantity(
        quantity, encoder, encoder.begin(batch), layers, None, range(layers), lambda _, maps: kept.append(maps.clone())
    )
    if encoder.device.type == "cuda":
        torch.cuda.synchronize(encoder.device)
