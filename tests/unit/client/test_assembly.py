"""Chunks may come in any order and in any sizes; each byte must come once."""

import itertools
from typing import Any

import bertscope
import numpy as np
import pytest
from bertscope.questions.attention.maps import AttentionAssembler
from bertscope.rpc.assembly import Coverage
from bertscope.v1 import attention_pb2, attention_statistics_pb2, common_pb2
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.broken_replies import refusals
from tests.support.stored_outputs import outcome

DTYPES = {"<f4": common_pb2.DATA_TYPE_FLOAT32, "<f2": common_pb2.DATA_TYPE_FLOAT16}


def request(count: int) -> attention_pb2.ExtractAttentionRequest:
    inputs = [common_pb2.TextInput(text=f"text {index}", text_pair="pair") for index in range(count)]
    return attention_pb2.ExtractAttentionRequest(inputs=inputs)


def header(index: int, array: Any, **changes: Any) -> attention_pb2.ExtractAttentionResponse:
    layers, heads, length, _ = array.shape
    tensor = common_pb2.Tensor(dtype=DTYPES[array.dtype.newbyteorder("<").str], shape=array.shape)
    fields = {
        "input_index": index,
        "tokens": [common_pb2.Token(text=str(number)) for number in range(length)],
        "layers": range(layers),
        "heads": range(10, 10 + heads),
        "attention": tensor,
        "truncated_tokens": 2,
    }
    return attention_pb2.ExtractAttentionResponse(header=attention_pb2.AttentionHeader(**(fields | changes)))


def chunk(index: int, offset: int, data: bytes) -> attention_pb2.ExtractAttentionResponse:
    return attention_pb2.ExtractAttentionResponse(
        chunk=attention_pb2.AttentionChunk(input_index=index, offset=offset, data=data)
    )


def example(length: int, dtype: str = "<f4", seed: int = 0) -> Any:
    return np.random.default_rng(seed).random((2, 3, length, length)).astype(dtype)


def receive(assembler: AttentionAssembler, messages: list[Any]) -> list[bertscope.AttentionMaps]:
    found = [maps for message in messages if (maps := assembler.add(message))]
    assembler.end()
    return found


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[Any], list[Any]]:
    """Arrays of some texts, and messages that carry them: cut anywhere, in any order that headers allow."""
    arrays = [
        example(draw(st.integers(1, 4)), draw(st.sampled_from(list(DTYPES))), seed) for seed in range(draw(st.integers(1, 3)))
    ]
    chunks = []
    for index, array in enumerate(arrays):
        data = array.tobytes()
        cuts = sorted({0, len(data), *draw(st.lists(st.integers(0, len(data)), max_size=8))})
        chunks.append([chunk(index, first, data[first:last]) for first, last in itertools.pairwise(cuts)])
    messages: list[Any] = []
    waiting: list[Any] = []
    for index, array in enumerate(arrays):
        messages.append(header(index, array))
        waiting = draw(st.permutations(waiting + chunks[index]))
        sent = len(waiting) if index == len(arrays) - 1 else draw(st.integers(0, len(waiting)))
        messages += waiting[:sent]
        waiting = waiting[sent:]
    return arrays, messages


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(streams())
def test_any_order_and_any_cuts_give_the_same_maps(stream):
    arrays, messages = stream
    assembler = AttentionAssembler(request(len(arrays)))
    found = {maps.input_index: maps for maps in receive(assembler, messages)}
    assert sorted(found) == list(range(len(arrays)))
    for index, array in enumerate(arrays):
        np.testing.assert_array_equal(found[index].attention, array)
        assert found[index].attention.dtype == array.dtype


@settings(max_examples=50)
@given(st.integers(0, 30), st.lists(st.tuples(st.integers(-2, 32), st.integers(-2, 32))))
def test_coverage_agrees_with_counting_bytes(size, intervals):
    coverage, counted = Coverage(size), [0] * size
    assert coverage.complete == (size == 0)
    for start, end in intervals:
        fits = 0 <= start < end <= size and not any(counted[start:end])
        if fits:
            coverage.add(start, end)
            counted[start:end] = [1] * (end - start)
        else:
            with pytest.raises(bertscope.InvalidReply):
                coverage.add(start, end)
        assert coverage.complete == all(counted)
        assert all(end < start for end, start in zip(coverage.ends, coverage.starts[1:], strict=False))


def of(quantity: int) -> attention_pb2.ExtractAttentionRequest:
    found = request(1)
    found.quantity = quantity
    return found


def test_maps_of_heads_and_of_layers(stored) -> None:
    array, rollout = np.arange(24, dtype="<f4").reshape(2, 3, 2, 2), attention_statistics_pb2.ATTENTION_QUANTITY_ROLLOUT
    message = header(0, array)
    (heads,) = receive(AttentionAssembler(request(1)), [message, chunk(0, 0, array.tobytes())])
    whole = header(0, array[:, :1], heads=[0], quantity=rollout)
    (layers,) = receive(AttentionAssembler(of(rollout)), [whole, chunk(0, 0, array[:, :1].tobytes())])

    def read(messages):
        (found,) = receive(AttentionAssembler(request(1)), messages)
        return found

    stored(
        heads=heads,
        layers=layers,
        chosen=[heads.head(1, 12), layers.layer(1), lambda: heads.layer(0), lambda: layers.layer(5)],
        broken=refusals(read, message, chunk(0, 0, array.tobytes()[:40]), chunk(0, 40, array.tobytes()[40:])),
        other_bytes=[
            lambda: read([message, chunk(0, 0, b"")]),
            lambda: read([message, chunk(0, 92, b"12345")]),
            lambda: read([message, chunk(0, 2**63, b"1")]),
            lambda: read([header(1, array)]),
        ],
        an_older_server=[
            outcome(lambda sent=sent: AttentionAssembler(of(rollout)).add(header(0, array, quantity=sent)))
            for sent in (0, 1, 99)
        ],
    )
