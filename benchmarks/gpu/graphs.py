"""Measures what CUDA graphs of the layers save on small batches."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import torch
from bertscope_service.encoders.torch.encoder import TorchEncoder
from bertscope_service.encoders.torch.graph_rooms import rooms_for

from benchmarks.gpu.cloze import cloze_batch, cloze_rows
from benchmarks.gpu.device import seconds
from benchmarks.gpu.report import Row


def measure_graphs(encoder: TorchEncoder, length: int, counts: tuple[int, ...]) -> Iterator[Row]:
    """Yields the milliseconds of a FillMask batch by a graph / by single launches, for so many texts of `length` tokens. The
    encoder has no graphs yet."""
    batches = [partial(cloze_batch, cloze_rows(encoder, length, count)) for count in counts]
    single = [seconds(encoder.device, batch) for batch in batches]
    free, began = _free_bytes(encoder.device), time.perf_counter()
    encoder.capture()
    took, memory = time.perf_counter() - began, free - _free_bytes(encoder.device)
    for count, batch, before in zip(counts, batches, single, strict=True):
        after = seconds(encoder.device, batch)
        cells = (f"{after * 1e3:.2f} ms", f"{before * 1e3:.2f} ms", f"{before / after:.2f}x")
        yield f"{count} x {length} ({count * length} tokens): by a graph / by single launches", *cells
    captured, wanted = len(encoder.graph_sizes), len(rooms_for(encoder.shape.max_tokens))
    yield "sizes whose graphs were captured", str(captured), f"of {wanted}", "" if captured else "see log"
    yield "capturing them took / their memory", f"{took:.1f} s", f"{memory / 1e9:.2f} GB", ""


def _free_bytes(device: torch.device) -> int:
    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 0
