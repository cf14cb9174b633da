"""`extract_hidden_states` of both clients."""

import asyncio
from typing import Any

import bertscope
import numpy as np
import pytest

from tests.support.harness import Host

TEXTS = ["The cat sat.", "The nurse told the doctor.", ("A pair", "of texts")]


def test_both_clients_give_the_same_states(host: Host) -> None:
    with bertscope.Client(host.target) as client:
        found = list(client.extract_hidden_states(TEXTS, model="bert", layers=[4, 0]))
        (half,) = client.extract_hidden_states(TEXTS[0], model="bert", layers=4, dtype="float16")

    async def ask() -> list[bertscope.HiddenStates]:
        async with bertscope.AsyncClient(host.target) as client:
            return [text async for text in client.extract_hidden_states(iter(TEXTS), model="bert", layers=[4, 0])]

    for one, other in zip(found, asyncio.run(ask()), strict=True):
        np.testing.assert_array_equal(one.states, other.states)
    assert [(text.input_index, text.layers, len(text.tokens)) for text in found[:1]] == [(0, (4, 0), 6)]
    assert [text.states.shape for text in found] == [(2, len(text.tokens), 32) for text in found]
    assert found[2].text_pair == "of texts"
    assert len(repr(found[0])) < 240
    np.testing.assert_array_equal(found[0].layer(0), found[0].states[1])
    with pytest.raises(KeyError, match="layer 1"):
        found[0].layer(1)
    np.testing.assert_allclose(half.states[0], found[0].layer(4), atol=5e-3)


def test_rejected_texts_are_left_out_only_if_somebody_is_told(host: Host) -> None:
    told: dict[int, Any] = {}
    with bertscope.Client(host.target) as client:
        with pytest.raises(bertscope.InvalidArgument, match=r"inputs\[1\]"):
            list(client.extract_hidden_states(["a", "the cat " * 60], model="bert"))
        found = list(client.extract_hidden_states(["a", "the cat " * 60, "b"], model="bert", on_rejected=told.__setitem__))
    assert [text.text for text in found] == ["a", "b"]
    assert [*told] == [1]


def test_units_and_poolings(host: Host) -> None:
    marked = bertscope.StatesInput(("The unplayable song.", "A cat."), [(4, 14), (2, 5, 1)])
    with bertscope.Client(host.target) as client:

        def ask(given: Any, **options: Any) -> bertscope.HiddenStates:
            (text,) = client.extract_hidden_states([given], model="bert", layers=4, **options)
            return text

        pieces = ask(marked.text)
        spans = ask(marked, unit="span", pooling="first")
        words, text = ask(marked.text, unit="word", pooling="last"), ask(marked.text, unit="text")
        wide, narrow = (
            ask(marked.text, unit="text", pooling="max"),
            ask(marked.text, unit="text", pooling="max", dtype="bfloat16"),
        )
    assert [(token.text, token.segment) for token in spans.tokens] == [("unplayable", 0), ("cat", 1)]
    firsts = [
        next(place for place, piece in enumerate(pieces.tokens) if not piece.special and (piece.start, piece.segment) == at)
        for at in ((4, 0), (2, 1))
    ]
    np.testing.assert_allclose(spans.states[0], pieces.states[0, firsts], atol=1e-5)
    assert (spans.unit, spans.pooling, pieces.unit, pieces.pooling) == ("span", "first", "piece", "")
    assert sum(len(word.pieces) for word in words.tokens) == len(pieces.tokens)
    assert (text.tokens, text.states.shape, text.pooling) == ((), (1, 1, 32), "mean")
    np.testing.assert_allclose(text.states[0, 0], pieces.states[0].mean(axis=0), atol=1e-5)
    assert narrow.states.dtype == np.float32
    np.testing.assert_allclose(narrow.states, wide.states, rtol=2**-8)


def test_attention_in_bfloat16(host: Host) -> None:
    with bertscope.Client(host.target) as client:
        (wide,) = client.extract_attention("The cat sat.", model="bert")
        (narrow,) = client.extract_attention("The cat sat.", model="bert", dtype="bfloat16")
    assert narrow.attention.dtype == np.float32
    np.testing.assert_allclose(narrow.attention, wide.attention, rtol=2**-8)
