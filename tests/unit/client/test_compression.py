"""Compression steps are built as written, sent as they are, and what was done is read back."""

from typing import Any

import bertscope
import numpy as np
from bertscope.questions.compression import messages, steps
from bertscope.v1 import compression_pb2

from tests.support.sent_requests import sent


def request(steps: Any, model_id: str = "small", **arguments: Any) -> Any:
    return sent("compress_model", model_id=model_id, steps=steps, **arguments)


def test_every_step_of_the_contract_can_be_made():
    fields = compression_pb2.CompressionStep.DESCRIPTOR.oneofs_by_name["step"].fields
    made = {kind.__name__ for kind in messages.NAMES}
    assert {field.message_type.name for field in fields} == made


def test_steps_do_not_follow_what_they_were_made_of():
    texts = ["a"]
    step = bertscope.reduce_vocabulary(texts)
    texts.append("b")
    assert step == steps.VocabularyReduction(("a",))


def test_steps_are_sent_as_they_were_written(stored) -> None:
    steps = [
        bertscope.onnx(),
        bertscope.int8(),
        bertscope.weight_only(),
        bertscope.weight_only(np.int64(8), 64),
        bertscope.half(),
        bertscope.half("bf16"),
        bertscope.keep_layers([0, 2]),
        bertscope.keep_layers(3),
        bertscope.remove_heads({3: [1, 4], 1: None}),
        bertscope.remove_heads(share=0.5, texts="a"),
        bertscope.remove_feed_forward(0.25),
        bertscope.remove_feed_forward(0.25, "importance", texts=iter(["a", "b"])),
        bertscope.magnitude(0.5),
        bertscope.untrained(5),
        bertscope.eliminate_tokens(np.array([1, 0.5])),
        bertscope.reduce_vocabulary(["a"], 2),
    ]
    assert request(steps[0]) == request(iter(steps[:1])) == request(steps[:1])
    stored(
        request=request(steps, "models/x", model="big", folder="/models/x"),
        nothing=request([]),  # The server says what is wrong.
        refused=[
            lambda: request("onnx"),
            lambda: request([bertscope.int8(), "onnx"]),
            lambda: bertscope.remove_heads(),
            lambda: bertscope.remove_heads({0: 1}, share=0.5),
            lambda: bertscope.remove_heads({}),
            lambda: bertscope.remove_heads({0: 1}, texts=["a"]),
            lambda: bertscope.remove_heads(share=0.5),
            lambda: bertscope.remove_feed_forward(0.5, "importance"),
            lambda: bertscope.remove_feed_forward(0.5, texts=["a"]),
            lambda: bertscope.eliminate_tokens([]),
            lambda: bertscope.eliminate_tokens([1, None]),
        ],
    )
