"""Requests are built as written, and what cannot be sent is refused with the name of its field."""

import doctest
from collections.abc import Callable
from typing import Any

import bertscope
import numpy as np
import pytest
from bertscope.questions.attention.maps import extract_attention_request
from bertscope.questions.cloze.requests import fill_mask_request
from bertscope.questions.labels.classification_requests import classify_request
from bertscope.questions.models.models import load_model_request, unload_model_request
from bertscope.v1 import attention_pb2, common_pb2
from bertscope.values import interventions
from bertscope.values.messages import asked_inputs, asked_texts, with_items
from bertscope.values.models import model_name

UNTOUCHED: dict[str, Any] = {"interventions": (), "reference_texts": (), "truncate": False}


def fill_mask(texts: Any = "[MASK]", **arguments: Any) -> Any:
    defaults = {"model": None, "top_k": None, "candidates": None, **UNTOUCHED}
    return with_items(fill_mask_request(**(defaults | arguments)), "texts", asked_texts(texts).items)


def extract_attention(inputs: Any = "a", **arguments: Any) -> Any:
    defaults = {"model": None, "layers": None, "heads": None, "words": False, "dtype": "float32", "quantity": "weights"}
    request = extract_attention_request(**(defaults | UNTOUCHED | arguments))
    return with_items(request, "inputs", asked_inputs(inputs).items)


def classify(inputs: Any = "a", **arguments: Any) -> Any:
    request = classify_request(**({"model": None} | UNTOUCHED | arguments))
    return with_items(request, "inputs", asked_inputs(inputs).items)


def load_model(model: Any = None, **arguments: Any) -> Any:
    defaults = {"source": "org/x", "device": None, "precision": None, "revision": None, "runtime": None, "replace": False}
    return load_model_request(model, **(defaults | arguments))


def test_what_is_left_out_is_unset():
    request = fill_mask()
    assert request.model == ""
    assert not request.HasField("top_k")
    assert list(request.candidates) == list(request.interventions) == list(request.reference_texts) == []
    request = extract_attention()
    assert list(request.layers) == list(request.heads) == []
    assert not request.inputs[0].HasField("text_pair")
    assert load_model().precision == common_pb2.PRECISION_UNSPECIFIED
    assert load_model().runtime == common_pb2.RUNTIME_UNSPECIFIED
    assert not load_model().replace


@pytest.mark.parametrize(("runtime", "number"), [("torch", 1), ("onnx", 2), ("auto", 3)])
def test_a_runtime_is_chosen_by_its_name(runtime, number):
    assert load_model(runtime=runtime).runtime == number


@pytest.mark.parametrize("model", ["models/x", "x"])
def test_a_model_goes_by_its_name_with_or_without_the_collection(model):
    assert fill_mask(model=model).model == "models/x"
    assert model_name("name", model) == "models/x"
    assert unload_model_request(model).name == "models/x"
    assert load_model(model).model_id == "x"


def test_one_is_accepted_where_many_are():
    assert list(fill_mask("a").texts) == ["a"]
    assert list(fill_mask(iter(["a", "b"])).texts) == ["a", "b"]
    assert list(fill_mask(candidates="word").candidates) == ["word"]
    assert list(extract_attention(layers=3, heads=np.int64(2)).layers) == [3]
    assert len(fill_mask(interventions=bertscope.zero(1)).interventions) == 1


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ("a", [("a", "")]),
        (("a", "b"), [("a", "b")]),
        (["a", "b"], [("a", ""), ("b", "")]),
        ([("a", "b"), "c"], [("a", "b"), ("c", "")]),
        ((("a", "b"), ("c", "d")), [("a", "b"), ("c", "d")]),
    ],
)
def test_a_tuple_is_a_pair_and_a_list_is_many(inputs, expected):
    for build in (extract_attention, classify):
        assert [(each.text, each.text_pair) for each in build(inputs).inputs] == expected


@pytest.mark.parametrize("build", [fill_mask, extract_attention, classify])
def test_every_request_takes_a_mean_and_its_reference_texts(build):
    request = build(interventions=bertscope.mean(2, [0]), reference_texts=iter(["a", "b"]))
    assert [(each.layer, list(each.heads), each.mode) for each in request.interventions] == [(2, [0], 3)]
    assert list(request.reference_texts) == ["a", "b"]
    assert list(build(reference_texts="one").reference_texts) == ["one"]
    with pytest.raises(bertscope.InvalidArgument, match=r"reference_texts\[1\]: must be a string"):
        build(reference_texts=["a", 1])


def test_numpy_numbers_count():
    request = extract_attention(layers=np.array([0, 5]), heads=[np.uint8(1)])
    assert (list(request.layers), list(request.heads)) == ([0, 5], [1])
    assert fill_mask(top_k=np.int32(7)).top_k == 7
    assert bertscope.zero(np.int64(3), np.arange(2)) == bertscope.zero(3, [0, 1])
    assert bertscope.scale(0, factor=np.float32(0.5)).factor == 0.5


def test_words_dtype_and_flags():
    assert fill_mask(truncate=np.bool_(True)).truncate
    request = extract_attention(words=True, dtype="float16", truncate=True)
    assert request.level == attention_pb2.ATTENTION_LEVEL_WORD
    assert request.dtype == common_pb2.DATA_TYPE_FLOAT16
    assert request.truncate


def test_interventions():
    chosen = [bertscope.zero(layer=3, heads=[1, 4]), bertscope.uniform(5), bertscope.scale(0, 2, factor=0)]
    zero, uniform, scale = fill_mask(interventions=chosen).interventions
    modes = common_pb2.HeadIntervention
    assert (zero.layer, list(zero.heads), zero.mode, zero.HasField("scale")) == (3, [1, 4], modes.MODE_ZERO, False)
    assert (uniform.layer, list(uniform.heads), uniform.mode) == (5, [], modes.MODE_UNIFORM)
    assert (list(scale.heads), scale.mode, scale.HasField("scale"), scale.scale) == ([2], modes.MODE_SCALE, True, 0.0)
    assert len(set(chosen)) == 3
    with pytest.raises(AttributeError):
        chosen[0].layer = 1


def test_examples_in_docstrings():
    assert doctest.testmod(interventions).failed == 0
    assert doctest.testmod(interventions).attempted == 4


@pytest.mark.parametrize(
    ("field", "build"),
    [
        ("texts", lambda: fill_mask("\ud800")),
        ("texts[1]", lambda: fill_mask(["a", "b\udfff"])),
        ("texts[0]", lambda: fill_mask([b"a"])),
        ("texts", lambda: fill_mask(b"a")),
        ("texts", lambda: fill_mask(7)),
        ("texts", lambda: fill_mask(None)),
        ("model", lambda: fill_mask(model="")),
        ("model", lambda: fill_mask(model=3)),
        ("top_k", lambda: fill_mask(top_k=-1)),
        ("top_k", lambda: fill_mask(top_k=2**32)),
        ("top_k", lambda: fill_mask(top_k=2.0)),
        ("top_k", lambda: fill_mask(top_k=True)),
        ("top_k", lambda: fill_mask(top_k="5")),
        ("decoding", lambda: fill_mask(decoding="greedy")),
        ("decoding", lambda: fill_mask(decoding=4)),
        ("beam_width", lambda: fill_mask(beam_width=-1)),
        ("max_pieces", lambda: fill_mask(max_pieces=2.0)),
        ("candidates", lambda: fill_mask(candidates=[])),
        ("candidates[1]", lambda: fill_mask(candidates=["a", None])),
        ("interventions", lambda: fill_mask(interventions=None)),
        ("interventions[0]", lambda: fill_mask(interventions=["zero"])),
        ("truncate", lambda: fill_mask(truncate=1)),
        ("inputs[0]", lambda: extract_attention(("a", "b", "c"))),
        ("inputs[0].text_pair", lambda: extract_attention(("a", None))),
        ("inputs[1].text", lambda: extract_attention(["a", "\ud800"])),
        ("inputs", lambda: extract_attention(5)),
        ("layers", lambda: extract_attention(layers=[])),
        ("layers", lambda: extract_attention(layers=-1)),
        ("layers[1]", lambda: extract_attention(layers=[0, 1.5])),
        ("layers[0]", lambda: extract_attention(layers=np.array([0.0]))),
        ("layers", lambda: extract_attention(layers="0")),
        ("heads[0]", lambda: extract_attention(heads=[np.bool_(True)])),
        ("dtype", lambda: extract_attention(dtype="float64")),
        ("quantity", lambda: extract_attention(quantity="gradients")),
        ("words", lambda: extract_attention(words="yes")),
        ("name", lambda: unload_model_request("")),
        ("source", lambda: load_model(source=None)),
        ("replace", lambda: load_model(replace="models/x")),
        ("precision", lambda: load_model(precision="int8")),
        ("runtime", lambda: load_model(runtime="tensorrt")),
        ("layer", lambda: bertscope.zero(-1)),
        ("layer", lambda: bertscope.uniform("1")),
        ("heads", lambda: bertscope.zero(1, [])),
        ("heads[1]", lambda: bertscope.zero(1, [0, -1])),
        ("factor", lambda: bertscope.scale(0, factor=float("nan"))),
        ("factor", lambda: bertscope.scale(0, factor=float("inf"))),
        ("factor", lambda: bertscope.scale(0, factor="2")),
        ("factor", lambda: bertscope.scale(0, factor=10**400)),
        ("factor", lambda: bertscope.HeadIntervention(0, None, "scale")),
        ("factor", lambda: bertscope.HeadIntervention(0, None, "zero", 1.0)),
        ("factor", lambda: bertscope.HeadIntervention(0, None, "mean", 1.0)),
        ("mode", lambda: bertscope.HeadIntervention(0, None, "nothing")),
        ("inputs[1].text_pair", lambda: classify([("a", "b"), ("a", 2)])),
        ("inputs", lambda: classify(None)),
        ("truncate", lambda: classify(truncate="yes")),
    ],
)
def test_what_cannot_be_sent_names_its_field(field: str, build: Callable[[], Any]):
    with pytest.raises(bertscope.InvalidArgument) as caught:
        build()
    assert isinstance(caught.value, ValueError)
    assert [violation.field for violation in caught.value.field_violations] == [field]
    assert str(caught.value).startswith(f"{field}: ")
    assert "\n" not in str(caught.value)
