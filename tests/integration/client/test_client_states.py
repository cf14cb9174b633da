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
