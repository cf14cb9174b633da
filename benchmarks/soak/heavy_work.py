"""The heavy calls of `python -m benchmarks training`: each takes the server seconds or minutes."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bertscope
import grpc.aio
import numpy as np
from bertscope.questions.probes.structural_probes import TreeText
from bertscope.v1 import representation_probes_pb2 as probes_pb2
from bertscope.values.labelled_texts import ProbeText
from bertscope_service.embedded import EMBEDDED_FOLDER
from transformers import AutoTokenizer, BertConfig, BertForQuestionAnswering

from benchmarks.lib.background import OWN_CONNECTION
from benchmarks.lib.texts import texts_of_lengths

Call = Callable[[bertscope.AsyncClient], Awaitable[object]]

TRAIN_PROBE = "/bertscope.v1.RepresentationService/TrainProbe"
ENDLESS = 1000
"""Epochs: a training goes on until it is cancelled."""


@dataclass(frozen=True, slots=True)
class Heavy:
    """Callers that make one call again and again, each on a connection of its own."""

    call: Call
    callers: int = 1


def heavy_work(target: str, answerer: str) -> Mapping[str, Heavy]:
    """Returns the heavy calls by name, to a server. `answerer` names a model with a question answering head."""
    draw = np.random.default_rng(7)
    texts = texts_of_lengths(draw.integers(12, 40, 200).tolist(), mask=False)
    few, many = ([_labelled(text, classes, draw) for text in texts] for classes in (17, 300))
    trees = [_tree(text, draw) for text in texts_of_lengths(draw.integers(12, 40, 100).tolist(), mask=False)]
    prompts = bertscope.MaskedLmLoss(texts_of_lengths([120] * 500, mask=False))
    passage = texts_of_lengths([5000], mask=False)[0]
    forever: dict[str, Any] = {"max_epochs": ENDLESS, "patience": ENDLESS}

    request = _request(2000, draw)

    async def late(_: bertscope.AsyncClient) -> object:
        """Ends by its deadline, while the server reads it or before."""
        async with grpc.aio.insecure_channel(target, [OWN_CONNECTION]) as channel:
            try:
                method: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(TRAIN_PROBE)
                return [one async for one in method(request, timeout=0.5)]
            except grpc.aio.AioRpcError as error:
                return error

    return {
        "TrainProbe, 512 hidden units": Heavy(lambda client: client.train_probe(few, hidden_units=512, seeds=5, **forever)),
        "TrainProbe, 300 classes": Heavy(lambda client: client.train_probe(many, seeds=5, ending="minimum")),
        "TrainProbe, mixes": Heavy(lambda client: client.train_probe(few, mix=True, seeds=5, **forever)),
        "TrainStructuralProbe": Heavy(lambda client: client.train_structural_probe(trees, rank=384, seeds=5, **forever)),
        "TrainEraser, 17 classes, INLP": Heavy(lambda client: client.train_eraser(few, method="inlp", rank=256)),
        "TrainLens": Heavy(lambda client: client.train_lens(texts, **forever)),
        "TrainCodes": Heavy(lambda client: client.train_codes(texts, layer=3, epochs=1000)),
        "DistillModel": Heavy(lambda client: _distill(client, texts)),
        "RankHeads": Heavy(lambda client: client.rank_heads(prompts)),
        "AnswerQuestions, long answers": Heavy(
            lambda client: client.answer_questions(("where is it", passage), model=answerer, max_answer_tokens=512, stride=8)
        ),
        "16 x TrainProbe, 1.4 MB, late": Heavy(late, 16),
    }


async def _distill(client: bertscope.AsyncClient, texts: Sequence[str]) -> object:
    name = f"student-{secrets.token_hex(4)}"
    folder = Path(tempfile.gettempdir()) / name
    try:
        return await client.distill_model(name, texts, folder=str(folder), steps=bertscope.keep_layers([0, 2, 4]), epochs=1000)
    finally:
        for left in (folder, folder.with_name(f"{name}.training")):
            shutil.rmtree(left, ignore_errors=True)


def write_tiny_answerer(folder: Path) -> Path:
    """Writes a model that answers questions from random weights. It is so small that its windows cost less than the search."""
    config = BertConfig(num_hidden_layers=1, hidden_size=16, num_attention_heads=2, intermediate_size=16, num_labels=2)
    AutoTokenizer.from_pretrained(EMBEDDED_FOLDER).save_pretrained(folder)
    BertForQuestionAnswering(config).save_pretrained(folder)
    return folder


def _labelled(text: str, classes: int, draw: np.random.Generator) -> ProbeText:
    """Labels each word by chance."""
    return ProbeText(text, [(f"c{draw.integers(classes)}", start, end) for start, end in _words(text)])


def _request(texts: int, draw: np.random.Generator) -> bytes:
    """Returns a TrainProbe request of so many long texts, serialized."""
    request = probes_pb2.TrainProbeRequest(labels=map(str, range(17)))
    for text in texts_of_lengths([60] * texts, mask=False):
        entry = request.train.add(input={"text": text})
        for start, end in _words(text):
            entry.spans.add(span={"start": start, "end": end}, label=int(draw.integers(17)))
    return request.SerializeToString()


def _tree(text: str, draw: np.random.Generator) -> TreeText:
    """Hangs each word under one before it."""
    words = _words(text)
    heads = [0, *(int(draw.integers(number)) + 1 for number in range(1, len(words)))]
    return TreeText(text, list(zip(heads, words, strict=True)))


def _words(text: str) -> list[tuple[int, int]]:
    found, begin = list[tuple[int, int]](), 0
    for word in text.split():
        begin = text.index(word, begin)
        found.append((begin, begin + len(word)))
        begin += len(word)
    return found
