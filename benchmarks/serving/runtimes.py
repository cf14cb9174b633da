"""Compares a bert-base by ONNX Runtime and by PyTorch, in fp32, bf16, int8 and with 4-bit weights."""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from bertscope_service.checkpoints.sources import inspect
from bertscope_service.checkpoints.steps import Int8, OnnxExport, Step, WeightOnly
from bertscope_service.compression.compress import compress
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.torch.loading import load_encoder
from bertscope_service.models.runtimes import RuntimeRequest, RuntimeSettings, read_encoders

from benchmarks.lib.measure import Claim, Pair, per_second, seconds
from benchmarks.lib.options import ROUNDS
from benchmarks.lib.texts import write_bert_base

OPTIONS = (ROUNDS,)
CPU = torch.device("cpu")
LENGTHS = (32, 128)
BATCHES = (1, 8)
MADE: dict[str, Sequence[Step]] = {
    "onnx fp32": (OnnxExport(),),
    "onnx int8": (OnnxExport(), Int8()),
    "onnx 4-bit": (OnnxExport(), WeightOnly(4, 32)),
    "torch int8": (Int8(),),
}
COMPARED = (
    ("onnx fp32", "torch fp32", ""),
    ("torch fp32", "torch as it comes", "at least 2x"),
    ("onnx fp32", "torch as it comes", "2x to 3x"),
    ("onnx int8", "onnx fp32", ""),
    ("onnx int8", "torch fp32", ""),
    ("torch int8", "torch fp32", ""),
    ("torch bf16", "torch fp32", ""),
    ("onnx 4-bit", "onnx fp32", ""),
)
"""Both sides of each comparison, and the expected result: others find ONNX Runtime 2 to 3 times as fast as plain PyTorch."""


def claims(options: Namespace) -> Iterator[Claim]:
    """Measures texts per second of the encoders in-process, one text and 8 at a time; every one in every round."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        encoders = build(write_bert_base(root / "whole"), root)
        for length in LENGTHS:
            batch = [TokenSequence([101, *range(2000, 1998 + length), 102], [0] * length)] * max(BATCHES)
            for size in BATCHES:
                times = {name: list[float]() for name in encoders}
                for encoder in encoders.values():
                    run(encoder, batch[:size])
                for _ in range(options.rounds):
                    for name, encoder in encoders.items():
                        times[name].append(seconds(lambda: run(encoder, batch[:size])))  # noqa: B023 - called at once
                for ours, theirs, goal in COMPARED:
                    what = f"bert-base, {size} x {length} tokens, {ours} / {theirs}"
                    yield Pair(times[ours], times[theirs]).claim(what, goal, per_second(size, "texts"))


def build(whole: Path, root: Path) -> dict[str, Encoder]:
    """Returns the model in every form, by its name in the table."""
    source = inspect(whole)
    digest = source.digest(lambda _: None)
    encoders: dict[str, Encoder] = {
        "torch as it comes": load_encoder(whole, "bert", device=CPU, precision="fp32", pack=False),
        "torch fp32": load_encoder(whole, "bert", device=CPU, precision="fp32"),
        "torch bf16": load_encoder(whole, "bert", device=CPU, precision="bf16"),
    }
    for number, (name, steps) in enumerate(MADE.items()):
        folder = root / f"made-{number}"
        compress(source, steps, folder, lambda _: None, digest)
        runtime = "onnx" if name.startswith("onnx") else "torch"
        (encoders[name],) = read_encoders(inspect(folder), digest, RuntimeRequest(runtime, "fp32", CPU), RuntimeSettings(root))
    return encoders


@torch.inference_mode()
def run(encoder: Encoder, batch: list[TokenSequence]) -> None:
    """Runs all layers, as a cloze query does: the last one at one position of each text, and the scores there."""
    state, rows = encoder.begin(batch), torch.arange(len(batch))
    encoder.advance(state, encoder.shape.layers, only=torch.ones((len(batch), 1), dtype=torch.int64))
    encoder.logits(state, rows, torch.zeros(len(batch), dtype=torch.int64))
