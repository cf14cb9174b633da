"""Measures ONNX Runtime beside PyTorch on the same weights, in float32 and in TF32."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch
from bertscope_service.checkpoints.sources import inspect
from bertscope_service.encoders.base import Encoder
from bertscope_service.models.precisions import set_float32_products
from bertscope_service.models.runtimes import RuntimeRequest, RuntimeSettings, read_encoders

from benchmarks.gpu.cloze import cloze_batch, cloze_rows
from benchmarks.gpu.device import seconds
from benchmarks.gpu.report import Row
from benchmarks.lib.texts import write_bert_base

TOLERANCE = {"fp32": 1e-3, "tf32": 5e-2}
"""Differences of log-probabilities between the libraries, nats."""


def measure_runtimes(device: torch.device, layers: int, rows: int, length: int, precisions: tuple[str, ...]) -> Iterator[Row]:
    """Yields texts per second of ONNX Runtime / PyTorch, and the largest difference of their answers."""
    with tempfile.TemporaryDirectory() as name:
        folder = write_bert_base(Path(name) / "model", layers=layers)
        source = inspect(folder)
        digest, settings = source.digest(lambda _: None), RuntimeSettings(Path(name) / "cache")
        for precision in precisions:
            set_float32_products(tf32=precision == "tf32")
            try:
                ours, theirs = (
                    read_encoders(source, digest, RuntimeRequest(runtime, precision, device), settings)[0]
                    for runtime in ("onnx", "torch")
                )
                yield from _rows(ours, theirs, precision, rows, length)
            finally:
                set_float32_products(tf32=False)


def _rows(ours: Encoder, theirs: Encoder, precision: str, rows: int, length: int) -> Iterator[Row]:
    batches = [partial(cloze_batch, cloze_rows(one, length, rows)) for one in (ours, theirs)]
    found = [np.array([scores.top_logs for scores in batch()]) for batch in batches]
    apart = float(np.abs(found[0] - found[1]).max())
    rates = [rows / seconds(ours.device, batch) for batch in batches]
    what = f"{precision}, {rows} x {length}"
    cells = [f"{rate:,.0f} texts/s" for rate in rates]
    yield f"{what}: ONNX Runtime / PyTorch", cells[0], cells[1], f"{rates[0] / rates[1]:.2f}x"
    close = "" if apart < TOLERANCE[precision] else "too much"
    yield f"{what}: difference of log-probabilities", f"{apart:.1e} nats", f"{TOLERANCE[precision]:.0e}", close
