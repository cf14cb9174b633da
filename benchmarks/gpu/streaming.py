"""Measures attention maps as a client gets them over gRPC, against the copy from the device to the host."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import torch
from bertscope.v1 import attention_pb2, attention_pb2_grpc, common_pb2

from benchmarks.gpu.device import Limits
from benchmarks.gpu.report import Row
from benchmarks.lib.serving import serving
from benchmarks.lib.texts import texts_of_lengths, write_bert_base

LENGTH = 512
ROUNDS = 3
"""After one to warm up; a text of a bert-base has 151 MB of maps."""
PATIENCE_SECONDS = 120.0


def measure_streaming(device: torch.device, limits: Limits, texts: int, layers: int) -> Iterator[Row]:
    """Streams all maps of some texts of LENGTH tokens from a server process on this machine, to a client that only counts the
    bytes."""
    with tempfile.TemporaryDirectory() as name:
        folder = write_bert_base(Path(name), layers=layers)
        flags = ("--device", str(device), "--runtime", "torch", "--model", f"bert={folder}")
        with serving(*flags) as server, grpc.insecure_channel(server.target) as channel:
            taken = [_stream(channel, texts) for _ in range(1 + ROUNDS)][1:]
    rate = statistics.median(size / seconds for size, seconds in taken)
    what = f"maps, fp32, {texts} x {LENGTH}, {layers} layers / the copy to the host"
    limit = limits.copy_bytes
    yield what, f"{rate / 1e6:.0f} MB/s", f"{limit / 1e6:.0f} MB/s", f"{rate / limit:.1%}"


def _stream(channel: grpc.Channel, texts: int) -> tuple[int, float]:
    """Returns the bytes of maps, and the seconds of their stream."""
    inputs = [common_pb2.TextInput(text=text) for text in texts_of_lengths([LENGTH] * texts, mask=False)]
    began, size = time.perf_counter(), 0
    stub = attention_pb2_grpc.AttentionServiceStub(channel)
    for response in stub.ExtractAttention(attention_pb2.ExtractAttentionRequest(inputs=inputs), timeout=PATIENCE_SECONDS):
        size += len(response.chunk.data)
    return size, time.perf_counter() - began
