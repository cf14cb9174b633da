"""Compression steps are built as written, sent as they are, and what was done is read back."""

import doctest
from typing import Any

import bertscope
import numpy as np
import pytest
from bertscope.questions.compression import messages, steps
from bertscope.questions.compression.messages import compress_model_request, read_compression_event
from bertscope.v1 import common_pb2, compression_pb2, model_pb2
from bertscope.values.messages import provenance
from bertscope.values.models import read_model
from google.protobuf import json_format


def request(steps: Any, model_id: str = "small", **arguments: Any) -> model_pb2.CompressModelRequest:
    return compress_model_request(model_id, steps, **({"model": None, "folder": None} | arguments))


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (bertscope.onnx(), {"onnx": {}}),
        (bertscope.int8(), {"int8": {}}),
        (bertscope.weight_only(), {"weightOnly": {"bits": 4}}),
        (bertscope.weight_only(np.int64(8), 64), {"weightOnly": {"bits": 8, "blockSize": 64}}),
        (bertscope.half(), {"half": {"precision": "PRECISION_FLOAT16"}}),
        (bertscope.half("bf16"), {"half": {"precision": "PRECISION_BFLOAT16"}}),
        (bertscope.keep_layers([0, 2]), {"layers": {"layers": [0, 2]}}),
        (bertscope.keep_layers(3), {"layers": {"layers": [3]}}),
        (
            bertscope.remove_heads({3: [1, 4], 1: None}),
            {"heads": {"heads": [{"layer": 1}, {"layer": 3, "heads": [1, 4]}]}},
        ),
        (bertscope.remove_heads(share=0.5, texts="a"), {"heads": {"share": 0.5, "texts": ["a"]}}),
        (bertscope.remove_feed_forward(0.25), {"feedForward": {"share": 0.25, "criterion": "CRITERION_MAGNITUDE"}}),
        (
            bertscope.remove_feed_forward(0.25, "importance", texts=iter(["a", "b"])),
            {"feedForward": {"share": 0.25, "criterion": "CRITERION_IMPORTANCE", "texts": ["a", "b"]}},
        ),
        (bertscope.magnitude(0.5), {"magnitude": {"share": 0.5}}),
        (bertscope.untrained(5), {"untrained": {"seed": "5"}}),
        (bertscope.eliminate_tokens(np.array([1, 0.5])), {"tokens": {"keptShares": [1.0, 0.5]}}),
        (bertscope.reduce_vocabulary(["a"], 2), {"vocabulary": {"texts": ["a"], "minCount": 2}}),
    ],
)
def test_a_step_is_sent_as_it_was_written(step, expected):
    for given in (step, [step], iter([step])):
        (message,) = request(given).steps
        assert json_format.MessageToDict(message) == expected


def test_every_step_of_the_contract_can_be_made():
    fields = compression_pb2.CompressionStep.DESCRIPTOR.oneofs_by_name["step"].fields
    made = {kind.__name__ for kind in messages.MESSAGES}
    assert {field.message_type.name for field in fields} == made


def test_steps_keep_their_order_and_the_rest_of_the_request():
    sent = request([bertscope.keep_layers([1]), bertscope.int8()], "models/x", model="big", folder="/models/x")
    assert [step.WhichOneof("step") for step in sent.steps] == ["layers", "int8"]
    assert (sent.model, sent.model_id, sent.folder) == ("models/big", "x", "/models/x")
    assert (request([]).model, request([]).folder, list(request([]).steps)) == ("", "", [])  # The server says what is wrong.


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: request("onnx"), "steps: must be steps such as bertscope.int8"),
        (lambda: request([bertscope.int8(), "onnx"]), r"steps\[1\]: must be made by bertscope.onnx"),
        (lambda: request([], None), "model_id: must be a string"),
        (lambda: bertscope.weight_only(0), "bits: must be at least 1"),
        (lambda: bertscope.weight_only(2.5), "bits: must be an integer"),
        (lambda: bertscope.weight_only(4, 0), "block_size: must be at least 1"),
        (lambda: bertscope.half("fp8"), "precision: must be one of fp16, bf16"),
        (lambda: bertscope.keep_layers([]), "layers: is empty: say at least one"),
        (lambda: bertscope.keep_layers([-1]), r"layers\[0\]: is -1; layers and heads count from 0"),
        (lambda: bertscope.remove_heads(), "heads: give heads or share, one of them"),
        (lambda: bertscope.remove_heads({0: 1}, share=0.5), "heads: give heads or share, one of them"),
        (lambda: bertscope.remove_heads({}), "heads: is empty"),
        (lambda: bertscope.remove_heads({0: 1}, texts=["a"]), "texts: go with share"),
        (lambda: bertscope.remove_heads(share=0.5), "texts: are required with share"),
        (lambda: bertscope.remove_heads(share="half", texts=["a"]), "share: must be a number"),
        (lambda: bertscope.remove_feed_forward(0.5, "size"), "by: must be one of magnitude, importance"),
        (lambda: bertscope.remove_feed_forward(0.5, "importance"), "texts: are required"),
        (lambda: bertscope.remove_feed_forward(0.5, texts=["a"]), "texts: are required"),
        (lambda: bertscope.magnitude(float("nan")), "share: must be finite"),
        (lambda: bertscope.eliminate_tokens([]), "kept_shares: is empty"),
        (lambda: bertscope.eliminate_tokens([1, None]), r"kept_shares\[1\]: must be a number"),
        (lambda: bertscope.reduce_vocabulary([]), "texts: is empty"),
        (lambda: bertscope.reduce_vocabulary(["a"], 0), "min_count: must be at least 1"),
    ],
)
def test_what_cannot_be_sent_is_refused_by_name(make, message):
    with pytest.raises(bertscope.InvalidArgument, match=message):
        make()


def test_steps_do_not_follow_what_they_were_made_of():
    texts = ["a"]
    step = bertscope.reduce_vocabulary(texts)
    texts.append("b")
    assert step == steps.VocabularyReduction(("a",))


def test_the_examples_are_right():
    found = doctest.testmod(steps)
    assert (found.failed, found.attempted) == (0, 3)


def test_events():
    response = model_pb2.CompressModelResponse
    progress = model_pb2.CompressionProgress(done_steps=1, total_steps=3, detail="int8")
    event = read_compression_event(response(progress=progress))
    assert event == bertscope.CompressionProgress(1, 3, "int8")
    assert read_compression_event(response()) is None
    steps = [compression_pb2.AppliedStep(step="layers", description="kept layers 0 of 2", numbers={"layers_after": 1})]
    model = read_compression_event(response(model=model_pb2.Model(name="models/x", compression=steps)))
    assert isinstance(model, bertscope.Model)
    assert model.compression == (bertscope.AppliedStep("layers", "kept layers 0 of 2", {"layers_after": 1.0}),)


@pytest.mark.parametrize(
    ("number", "name"), [(0, ""), (1, "fp32"), (2, "bf16"), (3, "fp16"), (4, "int8"), (5, "weight_only"), (99, "99")]
)
def test_a_number_format_that_is_not_known_is_its_number(number, name):
    assert read_model(model_pb2.Model(precision=number)).precision == name
    assert provenance(common_pb2.Provenance(precision=number)).precision == name


@pytest.mark.parametrize(("number", "name"), [(0, ""), (1, "torch"), (2, "onnx"), (99, "99")])
def test_a_runtime_that_is_not_known_is_its_number(number, name):
    assert read_model(model_pb2.Model(runtime=number)).runtime == name
