"""Chunks may come in any order and in any sizes; each byte must come once."""

import itertools
from typing import Any

import bertscope
import numpy as np
import pytest
from bertscope.questions.attention.assembly import AttentionAssembler
from bertscope.rpc.assembly import Coverage
from bertscope.v1 import attention_pb2, attention_statistics_pb2, common_pb2
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

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


@given(streams(), st.data())
def test_a_missing_message_is_noticed(stream, data):
    arrays, messages = stream
    del messages[data.draw(st.integers(0, len(messages) - 1))]
    assembler = AttentionAssembler(request(len(arrays)))
    with pytest.raises(bertscope.InvalidReply):
        receive(assembler, messages)


@given(streams(), st.data())
def test_a_message_that_comes_twice_is_noticed(stream, data):
    arrays, messages = stream
    again = data.draw(st.integers(0, len(messages) - 1))
    messages.insert(data.draw(st.integers(again, len(messages))), messages[again])
    assembler = AttentionAssembler(request(len(arrays)))
    with pytest.raises(bertscope.InvalidReply):
        receive(assembler, messages)


@given(st.integers(0, 30), st.lists(st.tuples(st.integers(-2, 32), st.integers(-2, 32))))
def test_coverage_agrees_with_counting_bytes(size, intervals):
    coverage, counted = Coverage(size), [0] * size
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


def test_maps_are_labelled():
    array = example(2)
    assembler = AttentionAssembler(request(1))
    assert assembler.add(header(0, array)) is None
    maps = assembler.add(chunk(0, 0, array.tobytes()))
    assert maps is not None
    assert (maps.text, maps.text_pair, maps.truncated_tokens) == ("text 0", "pair", 2)
    assert (maps.layers, maps.heads) == ((0, 1), (10, 11, 12))
    assert [token.text for token in maps.tokens] == ["0", "1"]
    np.testing.assert_array_equal(maps.head(1, 12), array[1, 2])


def test_bytes_are_little_endian_whatever_the_machine():
    assembler = AttentionAssembler(request(1))
    assembler.add(header(0, np.zeros((1, 1, 1, 1), "<f4")))
    maps = assembler.add(chunk(0, 0, b"\x00\x00\x80\x3f"))
    assert maps is not None
    assert maps.attention.item() == 1.0


def test_a_chunk_is_copied_to_its_place_without_another_array():
    array = example(4)
    assembler = AttentionAssembler(request(1))
    assembler.add(header(0, array))
    allocated = assembler._arriving[0].values
    maps = assembler.add(chunk(0, 0, array.tobytes()))
    assert maps is not None
    assert maps.attention is allocated


@pytest.mark.parametrize(
    "message",
    [
        header(1, example(2)),
        header(0, example(2), layers=[0]),
        header(0, example(2), heads=[0]),
        header(0, example(2), tokens=[common_pb2.Token(text="a")]),
        header(0, example(2), attention=common_pb2.Tensor(dtype=1, shape=[2, 3, 2])),
        header(0, example(2), attention=common_pb2.Tensor(dtype=0, shape=[2, 3, 2, 2])),
        header(0, example(2), attention=common_pb2.Tensor(dtype=77, shape=[2, 3, 2, 2])),
        chunk(0, 0, b"1234"),
    ],
)
def test_messages_that_break_the_contract(message):
    with pytest.raises(bertscope.InvalidReply):
        AttentionAssembler(request(1)).add(message)


def test_more_texts_than_were_asked():
    array = example(1)
    assembler = AttentionAssembler(request(1))
    assembler.add(header(0, array))
    assembler.add(chunk(0, 0, array.tobytes()))
    with pytest.raises(bertscope.InvalidReply):
        assembler.add(header(1, array))


@pytest.mark.parametrize(("offset", "data"), [(0, b""), (92, b"12345"), (96, b"1"), (2**63, b"1")])
def test_bytes_outside_the_tensor(offset, data):
    assembler = AttentionAssembler(request(1))
    assembler.add(header(0, example(2)))
    with pytest.raises(bertscope.InvalidReply):
        assembler.add(chunk(0, offset, data))


def of(quantity: int) -> attention_pb2.ExtractAttentionRequest:
    found = request(1)
    found.quantity = quantity
    return found


def test_a_layer_may_have_one_map():
    array = example(2)[:, :1]
    assembler = AttentionAssembler(of(attention_statistics_pb2.ATTENTION_QUANTITY_ROLLOUT))
    assembler.add(header(0, array, heads=[0], quantity=attention_statistics_pb2.ATTENTION_QUANTITY_ROLLOUT))
    (maps,) = receive(assembler, [chunk(0, 0, array.tobytes())])
    assert (maps.quantity, maps.by_head, maps.heads) == ("rollout", False, (0,))
    np.testing.assert_array_equal(maps.layer(1), array[1, 0])
    with pytest.raises(KeyError):
        maps.layer(5)


def test_heads_have_weights_of_their_own():
    array = example(2)
    (maps,) = receive(AttentionAssembler(request(1)), [header(0, array), chunk(0, 0, array.tobytes())])
    assert (maps.quantity, maps.by_head) == ("weights", True)
    with pytest.raises(ValueError, match="head"):
        maps.layer(0)


@pytest.mark.parametrize("sent", [0, 1, 2, 99])
def test_an_older_server_sends_weights_whatever_it_is_asked_for(sent):
    assembler = AttentionAssembler(of(attention_statistics_pb2.ATTENTION_QUANTITY_ROLLOUT))
    with pytest.raises(bertscope.InvalidReply, match="and not rollout; it may be older"):
        assembler.add(header(0, example(2), quantity=sent))
