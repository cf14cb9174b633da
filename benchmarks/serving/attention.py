"""Measures attention maps through gRPC against `model(..., output_attentions=True)` in-process, and memory while a long text
streams."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import bertscope
import grpc
import numpy as np
import torch
from bertscope.v1 import attention_pb2, attention_pb2_grpc, common_pb2
from transformers import AutoModelForMaskedLM, AutoTokenizer

from benchmarks.lib.measure import Claim, in_turn, per_second
from benchmarks.lib.serving import Running, serving
from benchmarks.lib.texts import texts_of_lengths, write_bert_base

TEXTS = 32
LENGTH = 128
BEST_BATCH = 8
"""The in-process side's best batch size of 1, 4, 8, 16 and 32 on two cores."""

LONG = 512
LAYER_BYTES = 12 * LONG * LONG * 4
MIB = 1024 * 1024


def claims(rounds: int) -> Iterator[Claim]:
    with tempfile.TemporaryDirectory() as name:
        folder = write_bert_base(Path(name))
        with serving("--model", f"bert-base={folder}") as server, bertscope.Client(server.target) as client:
            yield _memory(server, client)
            yield _speed(client, folder, rounds)


def _speed(client: bertscope.Client, folder: Path, rounds: int) -> Claim:
    texts = texts_of_lengths([LENGTH] * TEXTS, mask=False)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForMaskedLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval().base_model

    @torch.inference_mode()
    def theirs() -> list[np.ndarray]:
        maps = []
        for begin in range(0, TEXTS, BEST_BATCH):
            batch = tokenizer(texts[begin : begin + BEST_BATCH], return_tensors="pt", padding=True)
            attentions = model(**batch, output_attentions=True).attentions
            maps += list(torch.stack(attentions, dim=1).numpy())
        return maps

    def ours() -> list[np.ndarray]:
        return [maps.attention for maps in client.extract_attention(texts)]

    for mine, expected in zip(ours(), theirs(), strict=True):
        assert mine.shape == expected.shape == (12, 12, LENGTH, LENGTH)
        np.testing.assert_allclose(mine, expected, atol=1e-5)
    what = f"attention maps over gRPC, bert-base, {TEXTS} texts of {LENGTH} tokens / output_attentions=True in-process"
    return in_turn(ours, theirs, rounds).claim(what, "at least 0.8x", per_second(TEXTS, "texts"))


def _memory(server: Running, client: bertscope.Client) -> Claim:
    """Measures the peak of the server's resident memory while a 512-token text streams, over its idle value."""
    text = texts_of_lengths([LONG], mask=False)
    for _ in client.extract_attention(text):
        pass  # the first stream fills memory pools once; the second shows the memory of streaming
    idle = server.resident_bytes()
    peak = idle
    request = attention_pb2.ExtractAttentionRequest(inputs=[common_pb2.TextInput(text=text[0])])
    with grpc.insecure_channel(server.target) as channel:
        for _ in attention_pb2_grpc.AttentionServiceStub(channel).ExtractAttention(request):
            peak = max(peak, server.resident_bytes())
    grown, allowed = (peak - idle) / MIB, 64 + LAYER_BYTES / MIB
    what = f"server memory while a {LONG}-token bert-base text (151 MB of maps) streams, MiB over idle / allowed"
    return Claim(what, f"{grown:.0f} MiB", f"{allowed:.0f} MiB", grown / allowed, (grown / allowed,) * 2, "at most 1")
