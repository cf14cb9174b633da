"""Measures the gain of removing half of the heads: speed and size of a bert-base, against the whole one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import bertscope
import torch
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.torch.encoder import TorchEncoder
from bertscope_service.encoders.torch.loading import load_encoder

from benchmarks.lib.measure import Claim, in_turn, per_second
from benchmarks.lib.serving import serving
from benchmarks.lib.texts import write_bert_base

LENGTH = 128
HALF = {layer: tuple(range(0, 12, 2)) for layer in range(12)}


def claims(rounds: int) -> Iterator[Claim]:
    """Measures texts per second of the encoders in-process, one text and 16 at a time; Michel et al. 2019 report up to 17.5 %
    for half of BERT's heads, in large batches on a GPU of that time."""
    with tempfile.TemporaryDirectory() as name:
        whole, half = write_bert_base(Path(name) / "whole"), Path(name) / "half"
        with serving("--model", f"bert-base={whole}") as server, bertscope.Client(server.target) as client:
            before = client.get_model()
            after = client.prune_heads("half", HALF, folder=str(half))
        ratio = before.weight_bytes / after.weight_bytes
        ours, theirs = (f"{model.weight_bytes / 1e6:.0f} MB" for model in (after, before))
        yield Claim("bert-base with 72 of 144 heads removed, weights / whole", ours, theirs, ratio, (ratio, ratio), "")
        encoders = [load_encoder(folder, "bert", device=torch.device("cpu"), precision="fp32") for folder in (half, whole)]
        for size in (1, 16):
            pruned, full = (_Run(encoder, size) for encoder in encoders)
            what = f"bert-base with 72 of 144 heads removed, {size} x {LENGTH} tokens / whole"
            yield in_turn(pruned, full, rounds).claim(what, "Michel: 1.175", per_second(16, "texts"))


class _Run:
    """A run of 16 texts through all layers, `size` at a time."""

    def __init__(self, encoder: TorchEncoder, size: int) -> None:
        self._encoder = encoder
        self._batch = [TokenSequence([101, *[2000] * (LENGTH - 2), 102], [0] * LENGTH)] * size

    @torch.inference_mode()
    def __call__(self) -> None:
        for _ in range(16 // len(self._batch)):
            self._encoder.advance(self._encoder.begin(self._batch), 12)
