"""How much one request may ask for: each limit of the settings is held by every call that it is for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from bertscope.inference import open_inference_pb2 as oip
from bertscope.inference import open_inference_pb2_grpc
from bertscope.v1 import attention_pb2, classification_pb2, cloze_pb2, common_pb2

from tests.support.harness import CALL_SECONDS, Host, LoopThread, launched, refused

TEXT = "The cat sat on the [MASK]."
MANY = 8
"""Texts that have more tokens together than the server takes."""


@pytest.fixture(scope="module")
def strict(loop: LoopThread, checkpoints: dict[str, Path], sorters: dict[str, Path]) -> Iterator[Host]:
    models = [f"bert={checkpoints['bert']}", f"sorter={sorters['sorter']}"]
    with launched(loop, model=models, max_request_tokens=40, max_candidates=2, max_metadata_bytes=2048) as host:
        yield host


def fill(host: Host, texts: int, *candidates: str) -> object:
    request = cloze_pb2.FillMaskRequest(texts=[TEXT] * texts, candidates=candidates)
    return host.cloze.FillMask(request, timeout=CALL_SECONDS)


def extract(host: Host, texts: int) -> object:
    request = attention_pb2.ExtractAttentionRequest(inputs=[common_pb2.TextInput(text=TEXT)] * texts)
    return list(host.attention.ExtractAttention(request, timeout=CALL_SECONDS))


def classify(host: Host, texts: int) -> object:
    inputs = [common_pb2.TextInput(text=TEXT)] * texts
    request = classification_pb2.ClassifyRequest(model="models/sorter", inputs=inputs)
    return host.classification.Classify(request, timeout=CALL_SECONDS)


def infer(host: Host, texts: int) -> object:
    contents = oip.InferTensorContents(bytes_contents=[TEXT.encode()] * texts)
    tensor = oip.ModelInferRequest.InferInputTensor(name="text", datatype="BYTES", shape=[texts], contents=contents)
    request = oip.ModelInferRequest(model_name="bert", inputs=[tensor])
    return open_inference_pb2_grpc.GRPCInferenceServiceStub(host.channel).ModelInfer(request, timeout=CALL_SECONDS)


@pytest.mark.parametrize("call", [fill, extract, classify, infer])
def test_tokens_of_a_request(strict: Host, call: Callable[[Host, int], object]) -> None:
    assert call(strict, 1)
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as failures:
        call(strict, MANY)
    assert (failures[0].info.reason, failures[0].info.metadata["limit"]) == ("TOO_MANY_TOKENS", "40")
    assert call(strict, 1)


def test_candidates_of_a_request(strict: Host) -> None:
    assert fill(strict, 1, "cat", "dog")
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as failures:
        fill(strict, 1, "cat", "dog", "mat")
    assert (failures[0].info.reason, failures[0].info.metadata["limit"]) == ("TOO_MANY_CANDIDATES", "2")


@pytest.mark.slow
@pytest.mark.parametrize(("size", "taken"), [(1000, True), (2048, False)])
def test_metadata_of_a_call(strict: Host, size: int, taken: bool) -> None:
    request = cloze_pb2.FillMaskRequest(texts=[TEXT])
    call = strict.cloze.FillMask.future(request, metadata=(("x-more", "x" * size),), timeout=CALL_SECONDS)
    assert call.code() is (grpc.StatusCode.OK if taken else grpc.StatusCode.RESOURCE_EXHAUSTED)
