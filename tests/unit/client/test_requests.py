"""Requests are built as written, and what cannot be sent is refused with the name of its field."""

from functools import partial

import bertscope
import numpy as np
import pytest

from tests.support.sent_requests import sent

fill_mask, extract_attention, classify = (partial(sent, name) for name in ("fill_mask", "extract_attention", "classify"))


def test_what_is_sent(stored) -> None:
    chosen = [bertscope.zero(layer=3, heads=[1, 4]), bertscope.uniform(5), bertscope.scale(0, 2, factor=0)]
    assert len({*chosen, bertscope.mean(2)}) == 4
    with pytest.raises(AttributeError):
        chosen[0].layer = 1
    assert bertscope.zero(np.int64(3), np.arange(2)) == bertscope.zero(3, [0, 1])
    inputs = ["a", ("a", "b"), ["a", "b"], [("a", "b"), "c"], (("a", "b"), ("c", "d"))]
    stored(
        names=[
            [fill_mask(model=model), sent("unload_model", model=model), sent("load_model", model=model, source="org/x")]
            for model in ("models/x", "x")
        ],
        texts=[
            fill_mask(texts=iter(["a", "b"])),
            fill_mask(candidates="word"),
            fill_mask(truncate=np.bool_(True), top_k=np.int32(7)),
        ],
        pairs_and_lists=[[build(inputs=given) for given in inputs] for build in (extract_attention, classify)],
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
        lambda: fill_mask(texts=["a", "b\udfff"]),
        lambda: fill_mask(texts=b"a"),
        lambda: fill_mask(model=""),
        lambda: fill_mask(interventions=None),
        lambda: fill_mask(interventions=["zero"]),
        lambda: fill_mask(reference_texts=["a", 1]),
        lambda: extract_attention(inputs=("a", "b", "c")),
        lambda: extract_attention(inputs=("a", None)),
        lambda: extract_attention(layers=np.array([0.0])),
        lambda: extract_attention(heads=[np.bool_(True)]),
        lambda: sent("unload_model", model=""),
        lambda: bertscope.zero(1, [0, -1]),
        lambda: bertscope.scale(0, factor=10**400),
        lambda: bertscope.HeadIntervention(0, None, "scale"),
        lambda: bertscope.HeadIntervention(0, None, "zero", 1.0),
        lambda: bertscope.HeadIntervention(0, None, "nothing"),
        lambda: classify(inputs=[("a", "b"), ("a", 2)]),
        lambda: classify(inputs=5),
    ]
    for call in refused:
        with pytest.raises(bertscope.InvalidArgument) as caught:
            call()
        assert isinstance(caught.value, ValueError)
        assert str(caught.value).startswith(f"{caught.value.field_violations[0].field}: ")
    stored(refused=refused)
