"""8-bit integers against float32, and against ONNX Runtime's own dynamic quantisation, which has one scale for a whole batch.

Runs on as many threads as PyTorch takes: OMP_NUM_THREADS=1 for one.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import onnx
import torch
from bertscope_service.checkpoints.sources import inspect
from bertscope_service.checkpoints.steps import Int8, OnnxExport, Step
from bertscope_service.compression.compress import compress
from bertscope_service.compression.onnx.linear import Weights, finish, products
from bertscope_service.embedded import EMBEDDED_FOLDER
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.onnx.values import FAST
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.models.runtimes import RuntimeRequest, RuntimeSettings, read_encoders

from benchmarks.lib.measure import Claim, Pair, per_second, seconds
from benchmarks.lib.texts import write_bert_base
from benchmarks.micro.runtimes import run

LENGTHS, BATCHES = (32, 128), (1, 16)
SHORTEST = 0.1
"""Seconds that a round of one side takes at least: it is repeated until then."""

MADE: dict[str, tuple[str, tuple[Step, ...]]] = {
    "torch fp32": ("torch", ()),
    "torch int8": ("torch", (Int8(),)),
    "onnx fp32": ("onnx", (OnnxExport(),)),
    "onnx int8": ("onnx", (OnnxExport(), Int8())),
}
BATCH_SCALE = "onnx, a scale for the batch"
COMPARED = (
    ("onnx int8", "onnx fp32", ""),
    (BATCH_SCALE, "onnx fp32", ""),
    ("onnx int8", BATCH_SCALE, "at least 1"),
    ("torch int8", "torch fp32", ""),
)


def claims(rounds: int) -> Iterator[Claim]:
    """Texts per second of the embedded model and of a bert-base, one text and 16 at a time; every form in every round."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        for folder in (EMBEDDED_FOLDER, write_bert_base(root / "bert-base")):
            encoders = build(folder, root / f"made-{folder.name}")
            for length in LENGTHS:
                for size in BATCHES:
                    yield from compare(encoders, f"{folder.name}, {size} x {length} tokens", length, size, rounds)


def compare(encoders: dict[str, Encoder], where: str, length: int, size: int, rounds: int) -> Iterator[Claim]:
    """All pairs of `COMPARED`, on texts of one length."""
    batch = [TokenSequence([101, *range(2000, 1998 + length), 102], [0] * length)] * size
    times = {name: list[float]() for name in encoders}
    runs = {}
    for name, encoder in encoders.items():
        run(encoder, batch)
        runs[name] = 1 + int(SHORTEST / seconds(lambda: run(encoder, batch)))  # noqa: B023 - called at once
    for _ in range(rounds):
        for name, encoder in encoders.items():
            taken = seconds(lambda: [run(encoder, batch) for _ in range(runs[name])])  # noqa: B023 - called at once
            times[name].append(taken / runs[name])
    for ours, theirs, goal in COMPARED:
        yield Pair(times[ours], times[theirs]).claim(f"{where}, {ours} / {theirs}", goal, per_second(size, "texts"))


def build(whole: Path, root: Path) -> dict[str, Encoder]:
    """The model in every form, by its name in the table."""
    source, encoders, cpu = inspect(whole), dict[str, Encoder](), torch.device("cpu")
    digest = source.digest(lambda _: None)

    def load(name: str, runtime: str, folder: Path) -> None:
        (encoders[name],) = read_encoders(inspect(folder), digest, RuntimeRequest(runtime, "fp32", cpu), RuntimeSettings(root))

    for name, (runtime, steps) in MADE.items():
        folder = root / name if steps else whole
        if steps:
            folder.parent.mkdir(exist_ok=True)
            compress(source, steps, folder, lambda _: None, digest)
        load(name, runtime, folder)
    load(BATCH_SCALE, "onnx", quantized(root / "onnx fp32", root / "batch"))
    return encoders


def quantized(export: Path, folder: Path) -> Path:
    """An export whose fast graph ONNX Runtime's quantiser has rewritten, all products with weights and all embeddings."""
    logging.getLogger().setLevel(logging.ERROR)  # the quantiser writes to the root logger
    from onnxruntime.quantization import QuantType, quantize_dynamic

    shutil.copytree(export, folder)
    model = onnx.load(str(export / FAST))
    weights = Weights(model)
    for node, matrix in list(products(model)):
        if matrix is not None:  # it looks for constants [in, out] alone
            node.input[1] = weights.add(f"{matrix.name}.turned", matrix.values.T)
        model.graph.node.append(node)
    quantize_dynamic(
        finish(model),
        folder / FAST,
        op_types_to_quantize=["MatMul", "Gather"],
        per_channel=True,
        weight_type=QuantType.QInt8,
        extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
    )
    return folder
