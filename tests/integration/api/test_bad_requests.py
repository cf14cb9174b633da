"""What can't be answered is refused with the field and a remedy, and the next good request is answered."""

from collections.abc import Callable
from typing import Any

import grpc
import pytest
from bertscope.v1 import attention_pb2 as attention
from bertscope.v1 import attention_statistics_pb2 as attention_statistics
from bertscope.v1 import cloze_pb2 as cloze
from bertscope.v1 import common_pb2
from bertscope.v1 import model_pb2 as model

from tests.support.harness import CALL_SECONDS, Host, refused

Intervention = common_pb2.HeadIntervention
GOOD = "The [MASK] sat."
INVALID = grpc.StatusCode.INVALID_ARGUMENT
LONG = "the cat " * 60


def fill(host: Host, **fields: Any) -> None:
    host.cloze.FillMask(cloze.FillMaskRequest(**fields), timeout=CALL_SECONDS)


def extract(host: Host, **fields: Any) -> None:
    fields.setdefault("inputs", [common_pb2.TextInput(text="The cat sat.")])
    list(host.attention.ExtractAttention(attention.ExtractAttentionRequest(**fields), timeout=CALL_SECONDS))


def describe(host: Host, **fields: Any) -> None:
    fields.setdefault("inputs", [common_pb2.TextInput(text="The cat sat.")])
    host.attention.DescribeAttention(attention_statistics.DescribeAttentionRequest(**fields), timeout=CALL_SECONDS)


# field, words of the message, fields of the request
BAD_FILLS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "no mask": ("texts[1]", "write [MASK]", {"texts": [GOOD, "The cat sat."]}),
    "too long for the model": ("texts[0]", "truncate", {"texts": [GOOD + LONG]}),
    "every mask cut away": ("texts[0]", "move the mask forward", {"texts": [LONG + GOOD], "truncate": True}),
    "no prediction": ("top_k", "ask for 1 to", {"texts": [GOOD], "top_k": 0}),
    "more than the vocabulary": ("top_k", "ask for 1 to", {"texts": [GOOD], "top_k": 1_000_000}),
    "most of all": ("top_k", "ask for 1 to", {"texts": [GOOD], "top_k": 2**32 - 1}),
    "too many predictions": ("top_k", "more than 500000", {"texts": ["[MASK] " * 60] * 100, "top_k": 200}),
    "top_k with candidates": ("top_k", "set one of them", {"texts": [GOOD], "top_k": 3, "candidates": ["cat"]}),
    "unwritable candidate": ("candidates[1]", "leave it out", {"texts": [GOOD], "candidates": ["cat", "🦖"]}),
    "candidate without a piece": ("candidates[0]", "leave it out", {"texts": [GOOD], "candidates": ["\u200b\u0301"]}),
    "candidate too long to fit": ("texts[0]", "shorten", {"texts": [GOOD], "candidates": ["the cat sat " * 30]}),
}


@pytest.mark.parametrize(("field", "words", "fields"), BAD_FILLS.values(), ids=BAD_FILLS)
def test_fill_mask(host: Host, field: str, words: str, fields: dict[str, Any]) -> None:
    with refused(INVALID) as failures:
        fill(host, **fields)
    assert failures[0].fields == [field]
    assert words in failures[0].message


def text_input(text: str, pair: str | None = None) -> common_pb2.TextInput:
    return common_pb2.TextInput(text=text, text_pair=pair)


def compare(host: Host, **fields: Any) -> None:
    fields = {"inputs": [common_pb2.TextInput(text="The cat sat.")], "other_model": "models/headless"} | fields
    host.attention.CompareAttention(attention_statistics.CompareAttentionRequest(**fields), timeout=CALL_SECONDS)


BAD_INPUTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "no token": ("inputs[0].text", "write some text", {"inputs": [text_input("\u200b\u0301")]}),
    "too long": ("inputs[1]", "truncate", {"inputs": [text_input("a"), text_input(LONG)]}),
    "too long pair": ("inputs[0]", "truncate", {"inputs": [text_input("a", LONG)]}),
    "layer": ("layers[1]", "has layers 0 to 3", {"layers": [3, 4]}),
    "largest layer": ("layers[0]", "has layers 0 to 3", {"layers": [2**32 - 1]}),
    "layer twice": ("layers[2]", "once", {"layers": [1, 0, 1]}),
}
BAD_EXTRACTS = BAD_INPUTS | {
    "head": ("heads[0]", "has heads 0 to 3", {"heads": [4]}),
    "head twice": ("heads[1]", "once", {"heads": [2, 2]}),
}


@pytest.mark.parametrize(("field", "words", "fields"), BAD_EXTRACTS.values(), ids=BAD_EXTRACTS)
def test_extract_attention(host: Host, field: str, words: str, fields: dict[str, Any]) -> None:
    with refused(INVALID) as failures:
        extract(host, **fields)
    assert failures[0].fields == [field]
    assert words in failures[0].message


BAD_DESCRIPTIONS = {
    "no piece": ("punctuation[2]", "no single piece", {"punctuation": [".", ",", "unplayable recordings"]}),
    "unknown character": ("punctuation[0]", "no single piece", {"punctuation": ["🦖"]}),
    "unused reference texts": ("reference_texts", "leave", {"reference_texts": ["The cat sat."]}),
}


@pytest.mark.parametrize(("field", "words", "fields"), BAD_DESCRIPTIONS.values(), ids=BAD_DESCRIPTIONS)
def test_describe_attention(host: Host, field: str, words: str, fields: dict[str, Any]) -> None:
    with refused(INVALID) as failures:
        describe(host, **fields)
    assert failures[0].fields == [field]
    assert words in failures[0].message


ZERO, SCALE, UNIFORM = Intervention.MODE_ZERO, Intervention.MODE_SCALE, Intervention.MODE_UNIFORM
BAD_INTERVENTIONS: dict[str, tuple[str, str, list[dict[str, Any]]]] = {
    "layer": ("interventions[1].layer", "layers 0 to 3", [{"layer": 0, "mode": ZERO}, {"layer": 4, "mode": ZERO}]),
    "head": ("interventions[0].heads[1]", "heads 0 to 3", [{"heads": [0, 9], "mode": ZERO}]),
    "head twice": ("interventions[0].heads[1]", "once", [{"heads": [1, 1], "mode": ZERO}]),
    "changed twice": ("interventions[1]", "name each head once", [{"mode": ZERO}, {"heads": [3], "mode": UNIFORM}]),
    "the same twice": ("interventions[1]", "name each head once", [{"mode": ZERO}, {"mode": ZERO}]),
    "mean of nothing": ("reference_texts", "give texts", [{"mode": 3}]),
    "no scale": ("interventions[0].scale", "needs a factor", [{"mode": SCALE}]),
    "unused scale": ("interventions[0].scale", "leave it out", [{"mode": ZERO, "scale": 0.0}]),
}


BAD_COMPARISONS = {name: bad for name, bad in BAD_DESCRIPTIONS.items() if "layers" not in bad[2]} | {
    "itself": ("other_model", "compared with itself", {"other_model": ""}),
    "other vocabulary": ("other_model", "vocabulary entries", {"other_model": "models/roberta"}),
}


@pytest.mark.parametrize(("field", "words", "fields"), BAD_COMPARISONS.values(), ids=BAD_COMPARISONS)
def test_compare_attention(host: Host, field: str, words: str, fields: dict[str, Any]) -> None:
    with refused(INVALID) as failures:
        compare(host, **fields)
    assert failures[0].fields == [field]
    assert words in failures[0].message


@pytest.mark.parametrize("ask", [fill, extract])
@pytest.mark.parametrize(("field", "words", "plan"), BAD_INTERVENTIONS.values(), ids=BAD_INTERVENTIONS)
def test_interventions(host: Host, ask: Any, field: str, words: str, plan: list[dict[str, Any]]) -> None:
    texts = {"texts": [GOOD]} if ask is fill else {}
    with refused(INVALID) as failures:
        ask(host, interventions=[Intervention(**entry) for entry in plan], **texts)
    assert failures[0].fields == [field]
    assert words in failures[0].message


MALFORMED = (b"\xff", b"\x12\x05ab", b"\x0a\x02\xff\xfe", b"\x0a\x01\x80", b"garbage" * 100)


@pytest.mark.parametrize("data", MALFORMED)
@pytest.mark.parametrize("method", ["ClozeService/FillMask", "AttentionService/ExtractAttention", "ModelService/GetModel"])
def test_bytes_that_are_no_message(host: Host, method: str, data: bytes) -> None:
    send = host.raw_stream if method.endswith("ExtractAttention") else host.raw
    with refused(INVALID) as failures:
        send(method, data)
    assert failures[0].info.reason == "MALFORMED_REQUEST"
    assert "UTF-8" in failures[0].message


def test_a_text_that_is_not_utf_8(host: Host) -> None:
    text = "Zürich is in [MASK].".encode("latin-1")
    with refused(INVALID) as failures:
        host.raw("ClozeService/FillMask", b"\x12" + bytes([len(text)]) + text)
    assert "encode text as UTF-8" in failures[0].message


def test_unknown_methods_and_services(host: Host) -> None:
    for method in ("ClozeService/FillMasks", "NoService/Nothing"):
        with pytest.raises(grpc.RpcError) as caught:
            host.raw(method, b"")
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_message_over_the_limit_is_refused_by_the_transport(launch: Callable[..., Host], check_alive: Any) -> None:
    small = launch(max_message_bytes=10_000)
    with pytest.raises(grpc.RpcError) as caught:
        fill(small, texts=[GOOD + "x" * 10_000])
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "10000" in str(caught.value.details())
    check_alive(small)


def test_limits_come_from_the_settings(launch: Callable[..., Host]) -> None:
    small = launch(max_texts=2, max_text_characters=30)
    fill(small, texts=[GOOD, GOOD])
    with refused(INVALID) as failures:
        fill(small, texts=[GOOD] * 3)
    assert "takes 2" in failures[0].message
    with refused(INVALID) as failures:
        fill(small, texts=[GOOD + "x" * 30])
    assert "takes 30" in failures[0].message


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("model_id", {"source": "x", "model_id": "-a"}),
        ("model_id", {"source": "x", "model_id": "a" * 64}),
        ("model_id", {"source": "x", "model_id": "../a"}),
        ("model_id", {"source": "x", "model_id": "a\n"}),
        ("model_id", {"source": "a b"}),
        ("device", {"source": "x", "device": "tpu"}),
        ("device", {"source": "x", "device": "cuda:-1"}),
        ("source", {"source": "a//b", "model_id": "x"}),
        ("source", {"source": "a b/c", "model_id": "x"}),
        ("source", {"source": "https://example.org/x", "model_id": "x"}),
        ("revision", {"source": "/", "model_id": "x", "revision": "main"}),
    ],
)
def test_load_model(host: Host, field: str, fields: dict[str, Any]) -> None:
    before = host.models.ListModels(model.ListModelsRequest())
    with refused(INVALID) as failures:
        list(host.models.LoadModel(model.LoadModelRequest(**fields), timeout=CALL_SECONDS))
    assert failures[0].fields == [field]
    assert host.models.ListModels(model.ListModelsRequest()) == before
