"""Requests are built as written, and what cannot be sent is refused with the name of its field."""

from typing import Any

import bertscope
import numpy as np
import pytest
from bertscope.questions.attention.maps import extract_attention_request
from bertscope.questions.cloze.requests import fill_mask_request
from bertscope.questions.labels.classification_requests import classify_request
from bertscope.questions.models.models import load_model_request, unload_model_request
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


def test_what_is_sent(stored) -> None:
    chosen = [bertscope.zero(layer=3, heads=[1, 4]), bertscope.uniform(5), bertscope.scale(0, 2, factor=0)]
    assert len({*chosen, bertscope.mean(2)}) == 4
    with pytest.raises(AttributeError):
        chosen[0].layer = 1
    assert bertscope.zero(np.int64(3), np.arange(2)) == bertscope.zero(3, [0, 1])
    inputs = ["a", ("a", "b"), ["a", "b"], [("a", "b"), "c"], (("a", "b"), ("c", "d"))]
    stored(
        names=[
            [fill_mask(model=model), model_name("name", model), unload_model_request(model), load_model(model)]
            for model in ("models/x", "x")
        ],
        texts=[
            fill_mask(iter(["a", "b"])),
            fill_mask(candidates="word"),
            fill_mask(truncate=np.bool_(True), top_k=np.int32(7)),
        ],
        a_tuple_is_a_pair_and_a_list_is_many=[[build(given) for given in inputs] for build in (extract_attention, classify)],
        numbers=extract_attention(layers=np.array([0, 5]), heads=[np.uint8(1)]),
        words=extract_attention(words=True, dtype="float16"),
        interventions=fill_mask(interventions=[*chosen, bertscope.scale(0, factor=np.float32(0.5))]),
        references=[
            build(interventions=bertscope.mean(2, [0]), reference_texts=given)
            for build in (fill_mask, extract_attention, classify)
            for given in (iter(["a", "b"]), "one")
        ],
    )


def test_what_cannot_be_sent_names_its_field(stored) -> None:
    refused = [
        lambda: fill_mask(["a", "b\udfff"]),
        lambda: fill_mask(b"a"),
        lambda: fill_mask(model=""),
        lambda: fill_mask(interventions=None),
        lambda: fill_mask(interventions=["zero"]),
        lambda: fill_mask(reference_texts=["a", 1]),
        lambda: extract_attention(("a", "b", "c")),
        lambda: extract_attention(("a", None)),
        lambda: extract_attention(layers=np.array([0.0])),
        lambda: extract_attention(heads=[np.bool_(True)]),
        lambda: unload_model_request(""),
        lambda: bertscope.zero(1, [0, -1]),
        lambda: bertscope.scale(0, factor=10**400),
        lambda: bertscope.HeadIntervention(0, None, "scale"),
        lambda: bertscope.HeadIntervention(0, None, "zero", 1.0),
        lambda: bertscope.HeadIntervention(0, None, "nothing"),
        lambda: classify([("a", "b"), ("a", 2)]),
        lambda: classify(5),
    ]
    for call in refused:
        with pytest.raises(bertscope.InvalidArgument) as caught:
            call()
        assert isinstance(caught.value, ValueError)
        assert str(caught.value).startswith(f"{caught.value.field_violations[0].field}: ")
    stored(refused=refused)


def load_model(model: Any) -> Any:
    unset = {"device": None, "precision": None, "revision": None, "runtime": None, "replace": False}
    return load_model_request(model, source="org/x", **unset)
