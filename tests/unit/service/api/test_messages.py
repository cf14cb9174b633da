"""Requests become domain objects or are refused with the field and a remedy; models and pages become replies."""

import asyncio
from typing import Any

import numpy as np
import pytest
from bertscope.v1 import attention_pb2 as attention
from bertscope.v1 import common_pb2
from bertscope.v1 import model_pb2 as model
from bertscope_service.api.model_rendering import render_page
from bertscope_service.api.models import load_spec, parse_load
from bertscope_service.api.pages import parse_page
from bertscope_service.api.tensor_chunks import render_chunks
from bertscope_service.errors import InvalidArgument
from bertscope_service.models.hosted import HostedModel
from bertscope_service.models.loaded import LoadSpec
from bertscope_service.rpc.hosting import parse_model
from bertscope_service.settings import Settings

SETTINGS = Settings()


def refusal(parse: Any, *arguments: Any) -> tuple[str, str]:
    with pytest.raises(InvalidArgument) as caught:
        parse(*arguments)
    assert caught.value.reason.isupper()
    return caught.value.field, caught.value.message


def test_chunks_are_little_endian_whatever_the_maps_are() -> None:
    (rendered,) = render_chunks(attention.AttentionChunk, 0, 0, np.array([1.0, 2.0], dtype=">f4"))
    response = attention.ExtractAttentionResponse.FromString(rendered)
    np.testing.assert_array_equal(np.frombuffer(response.chunk.data, "<f4"), [1, 2])


@pytest.mark.parametrize(
    ("entry", "name", "source"),
    [
        ("org/model", "models/model", "org/model"),
        ("name=org/model", "models/name", "org/model"),
        ("/a/b.c/", "models/b.c", "/a/b.c/"),
        ("n=/a/b", "models/n", "/a/b"),
        ("/a=b/c", "models/c", "/a=b/c"),
        ("n=/a=b/c", "models/n", "/a=b/c"),
        ("bertscope-mini", "models/bertscope-mini", "bertscope-mini"),
    ],
)
def test_a_model_flag_is_name_and_source(entry: str, name: str, source: str) -> None:
    spec = parse_model(entry, SETTINGS)
    assert (spec.name, spec.source, spec.device, spec.precision) == (name, source, "auto", "auto")


@pytest.mark.parametrize("model_id", ["a", "A-b_c.d", "0", "x" * 63])
def test_model_ids(model_id: str) -> None:
    assert load_spec(model_id, "s", "cpu", "fp32", "torch").name == f"models/{model_id}"


@pytest.mark.parametrize("model_id", ["-a", ".a", "_a", "a b", "a/b", "é", "a\n", "x" * 64, "a=b", "😀"])
def test_malformed_model_ids(model_id: str) -> None:
    field, message = refusal(load_spec, model_id, "s", "cpu", "fp32", "torch")
    assert field == "model_id"
    assert "use 1 to 63" in message


@pytest.mark.parametrize("source", [".", "..", "/", "a/b c", "a/-"])
def test_a_source_whose_last_part_is_no_id_needs_one(source: str) -> None:
    assert refusal(load_spec, "", source, "cpu", "fp32", "torch")[0] == "model_id"
    assert load_spec("x", source, "cpu", "fp32", "torch").id == "x"


def test_load_model() -> None:
    settings = Settings(device="cpu", precision="bf16")
    expected = LoadSpec("name", "org/name", "cpu", "bf16", runtime="auto")
    assert parse_load(model.LoadModelRequest(source="org/name"), settings) == expected
    request = model.LoadModelRequest(
        source="o/n",
        model_id="i",
        device="cuda:1",
        precision=common_pb2.PRECISION_FLOAT16,
        revision="v1",
        runtime=common_pb2.RUNTIME_ONNX,
    )
    assert parse_load(request, settings) == LoadSpec("i", "o/n", "cuda:1", "fp16", "v1", runtime="onnx")


def entries(*names: str) -> list[HostedModel]:
    async def make() -> list[HostedModel]:
        return [HostedModel(LoadSpec(name, "s", "cpu", "fp32", "torch")) for name in names]

    return asyncio.run(make())


@pytest.mark.parametrize("token", ["a", "abc", "_w==", "/w=="])
def test_malformed_page_tokens(token: str) -> None:
    field, message = refusal(parse_page, model.ListModelsRequest(page_token=token))
    assert field == "page_token"
    assert "leave it out" in message


def test_a_page_token_of_a_model_that_is_gone() -> None:
    assert refusal(render_page, entries("a"), 1, "models/b")[0] == "page_token"
