"""Measures attention maps through gRPC against `model(..., output_attentions=True)` in-process, and memory while a long text
streams."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import bertscope
import grpc
import numpy as np
import torch
from bertscope.v1 import attention_pb2, attention_pb2_grpc, common_pb2

from benchmarks.lib.measure import Claim, in_turn, mebibytes, per_second, share
from benchmarks.lib.options import ROUNDS
from benchmarks.lib.serving import Running, serving
from benchmarks.lib.texts import bert_base, plain, texts_of_lengths

OPTIONS = (ROUNDS,)
TEXTS, LENGTH = 32, 128
BEST_BATCH = 8
"""The in-process side's best batch size of 1, 4, 8, 16 and 32 on two cores."""

LONG = 512
ALLOWED_BYTES = 64 * 2**20 + 12 * LONG * LONG * 4
"""64 MiB, and the maps of a layer of a long text."""


def claims(options: Namespace) -> Iterator[Claim]:
    """Yields memory, then speed, of a bert-base."""
    with bert_base() as folder, serving("--model", f"bert-base={folder}") as server, bertscope.Client(server.target) as client:
        yield _memory(server, client)
        yield _speed(client, folder, options.rounds)


def _speed(client: bertscope.Client, folder: Path, rounds: int) -> Claim:
    texts = texts_of_lengths([LENGTH] * TEXTS, mask=False)
    whole, tokenizer = plain(folder, attn_implementation="eager")
    model = whole.base_model

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
    request = attention_pb2.ExtractAttentionRequest(inputs=[common_pb2.TextInput(text=text[0])])
    with grpc.insecure_channel(server.target) as channel, server.peak() as peak:
        for _ in attention_pb2_grpc.AttentionServiceStub(channel).ExtractAttention(request):
            pass
    what = f"server memory while a {LONG}-token bert-base text (151 MB of maps) streams, over idle / allowed"
    return share(what, [peak[0] - idle], [ALLOWED_BYTES], mebibytes, "at most 1")
