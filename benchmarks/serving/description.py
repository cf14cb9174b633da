"""Measures DescribeAttention through gRPC against bare forward passes in the same server, against streaming the maps and
reducing them in the client, and against `model(..., output_attentions=True)` and numpy in-process."""

from __future__ import annotations

import random
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bertscope
import grpc
import numpy as np
import torch
from bertscope.inference import open_inference_pb2 as oip
from bertscope.inference import open_inference_pb2_grpc
from bertscope.v1 import attention_pb2, attention_pb2_grpc, attention_statistics_pb2, common_pb2
from bertscope_service.embedded import EMBEDDED_FOLDER
from numpy.typing import NDArray

from benchmarks.lib.measure import Claim, all_in_turn, per_second
from benchmarks.lib.options import ROUNDS
from benchmarks.lib.serving import Running, serving
from benchmarks.lib.texts import bert_base, plain, texts_of_lengths

OPTIONS = (ROUNDS,)
BEST_BATCH = 8
"""The in-process side's best batch size of 1, 4, 8, 16 and 32 on two cores."""

BATCH = 32
"""Texts in a ModelInfer call, whose reply has 393 kB for each text of a bert-base."""

UNLIMITED = [("grpc.max_receive_message_length", -1)]
Statistics = dict[str, NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Work:
    """A model and the texts that are described."""

    what: str
    model: str
    folder: Path
    texts: list[str]


def claims(options: Namespace) -> Iterator[Claim]:
    """Yields the comparisons of a bert-base and of the embedded model."""
    draw = random.Random(5)
    sentences = [draw.randint(8, 40) for _ in range(256)]
    with (
        bert_base() as base,
        serving("--runtime", "torch", f"--model=bert-base={base}", f"--model=mini={EMBEDDED_FOLDER}") as server,
    ):
        for what, model, folder, lengths in (
            ("bert-base, 32 texts of 128 tokens", "bert-base", base, [128] * 32),
            ("embedded model, 64 texts of 128 tokens", "mini", EMBEDDED_FOLDER, [128] * 64),
            ("embedded model, 256 texts of 8-40 tokens", "mini", EMBEDDED_FOLDER, sentences),
        ):
            work = Work(what, model, folder, texts_of_lengths(lengths, mask=False))
            yield from _compare(server, work, options.rounds)


def _compare(server: Running, work: Work, rounds: int) -> Iterator[Claim]:
    sides = _Sides(server, work)
    expected = sides.in_process()
    for name, values in sides.streamed().items():
        np.testing.assert_allclose(values, expected[name], rtol=1e-4, atol=1e-4 * len(work.texts), err_msg=name)
    for entry in sides.described().statistics:
        name = attention_statistics_pb2.AttentionStatistic.Name(entry.statistic).removeprefix("ATTENTION_STATISTIC_")
        found = np.reshape(entry.sums.sums, expected[name].shape)
        np.testing.assert_allclose(found, expected[name], rtol=1e-4, atol=1e-4 * len(work.texts), err_msg=name)
    sides.bare()
    pairs = all_in_turn(sides.described, [sides.bare, sides.streamed, sides.in_process], rounds)
    rate = per_second(len(work.texts), "texts")
    what = f"DescribeAttention, {work.what} /"
    yield pairs[0].claim(f"{what} forward passes without attention (ModelInfer)", "at least 0.9x", rate)
    yield pairs[1].claim(f"{what} ExtractAttention, reduced in the client", "faster", rate)
    yield pairs[2].claim(f"{what} output_attentions=True and numpy, in-process", "at least 5x", rate)
    ours, theirs = sides.described().ByteSize(), sides.streamed_bytes()
    ratio = theirs / ours
    what = f"bytes of ExtractAttention's messages / DescribeAttention's reply, {work.what}"
    yield Claim(what, f"{ours / 1e3:.1f} kB", f"{theirs / 1e6:.1f} MB", ratio, (ratio, ratio), "at least 1000x")


class _Sides:
    """The ways to get the same statistics, and forward passes alone."""

    def __init__(self, server: Running, work: Work) -> None:
        channel = grpc.insecure_channel(server.target, UNLIMITED)
        stub: Any = attention_pb2_grpc.AttentionServiceStub(channel)
        self._attention = stub
        self._inference: Any = open_inference_pb2_grpc.GRPCInferenceServiceStub(channel)
        self._client = bertscope.Client(server.target)
        self._work = work
        self._name = f"models/{work.model}"
        self._inputs = [common_pb2.TextInput(text=text) for text in work.texts]
        whole, self._tokenizer = plain(work.folder, attn_implementation="eager")
        self._model = whole.base_model

    def described(self) -> attention_statistics_pb2.DescribeAttentionResponse:
        request = attention_statistics_pb2.DescribeAttentionRequest(model=self._name, inputs=self._inputs)
        reply: attention_statistics_pb2.DescribeAttentionResponse = self._attention.DescribeAttention(request)
        return reply

    def bare(self) -> None:
        for begin in range(0, len(self._work.texts), BATCH):
            texts = [text.encode() for text in self._work.texts[begin : begin + BATCH]]
            contents = oip.InferTensorContents(bytes_contents=texts)
            tensor = oip.ModelInferRequest.InferInputTensor(
                name="text", datatype="BYTES", shape=[len(texts)], contents=contents
            )
            output = oip.ModelInferRequest.InferRequestedOutputTensor(name="last_hidden_state")
            self._inference.ModelInfer(oip.ModelInferRequest(model_name=self._work.model, inputs=[tensor], outputs=[output]))

    def streamed(self) -> Statistics:
        found: Statistics = {}
        for maps in self._client.extract_attention(self._work.texts, model=self._name):
            _add(found, maps.attention, [token.text for token in maps.tokens])
        return found

    def streamed_bytes(self) -> int:
        request = attention_pb2.ExtractAttentionRequest(model=self._name, inputs=self._inputs)
        return sum(message.ByteSize() for message in self._attention.ExtractAttention(request))

    @torch.inference_mode()
    def in_process(self) -> Statistics:
        found: Statistics = {}
        order = sorted(self._work.texts, key=len)
        for begin in range(0, len(order), BEST_BATCH):
            batch = self._tokenizer(order[begin : begin + BEST_BATCH], return_tensors="pt", padding=True)
            maps = torch.stack(self._model(**batch, output_attentions=True).attentions, dim=1).numpy()
            for row, (ids, valid) in enumerate(zip(batch["input_ids"], batch["attention_mask"], strict=True)):
                length = int(valid.sum())
                tokens = self._tokenizer.convert_ids_to_tokens(ids[:length])
                _add(found, maps[row, :, :, :length, :length], tokens)
        return found


def _add(sums: Statistics, maps: NDArray[np.float32], tokens: Sequence[str]) -> None:
    """Adds the statistics of one text's maps, [layers, heads, length, length], with numpy; single texts of a BERT."""
    length = len(tokens)
    places = np.arange(length)
    received = maps.mean(axis=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        entropies = -np.where(maps > 0, maps * np.log(maps), 0).sum(axis=-1)
    diagonal = maps.diagonal(0, 2, 3)
    words = slice(1, -1)
    found = {
        "FIRST_SPECIAL": received[..., 0],
        "SEPARATORS": received[..., -1],
        "LARGEST_SEPARATOR": received[..., -1],
        "SELF": diagonal.mean(axis=-1),
        "PREVIOUS": maps.diagonal(-1, 2, 3).mean(axis=-1),
        "NEXT": maps.diagonal(1, 2, 3).mean(axis=-1),
        "PUNCTUATION": received[..., [token in (".", ",") for token in tokens]].sum(axis=-1),
        "SAME_TEXT": (maps[..., words, words].sum(axis=(-1, -2)) - diagonal[..., words].sum(axis=-1)) / (length - 2),
        "ENTROPY": entropies.mean(axis=-1),
        "FIRST_SPECIAL_ENTROPY": entropies[..., 0],
        "CONFIDENCE": maps.max(axis=-1).mean(axis=-1),
        "DISTANCE": (maps * np.abs(places[:, None] - places)).sum(axis=(-1, -2)) / length,
    }
    for name, values in found.items():
        sums[name] = sums.get(name, np.zeros(values.shape)) + values
