"""ExtractAttention over a socket: what arrives, when it arrives, and what happens when it does not."""

import asyncio
import itertools

import bertscope
import grpc
import pytest
from bertscope.v1 import attention_pb2

from tests.support.patience import granted

TEXTS = ["the cat sat", "a much longer text than that, of eleven words or so"]


@pytest.mark.asyncio
async def test_closing_the_async_generator_cancels_the_call(server, endless):
    server.stream = endless
    async with bertscope.AsyncClient(server.target) as client:
        stream = client.extract_attention(TEXTS)
        assert (await anext(stream)).text == TEXTS[0]
        assert not server.ended.is_set()
        await stream.aclose()
        assert await asyncio.to_thread(server.ended.wait, granted(30))


def test_a_stream_without_its_end_is_an_invalid_reply(server):
    server.stream = lambda messages: iter([*messages][:-1])
    with bertscope.Client(server.target) as client, pytest.raises(bertscope.InvalidReply, match="ended early: 1 of 2"):
        list(client.extract_attention(TEXTS))
    assert server.ended.wait(granted(30))


def test_a_failure_after_the_first_text_is_raised_and_not_retried(server):
    def fail_in_the_middle(messages):
        yield from itertools.takewhile(lambda message: not message.header.input_index, messages)
        raise RuntimeError("no inner text in the reply")

    server.stream = fail_in_the_middle
    with bertscope.Client(server.target) as client:
        stream = client.extract_attention(TEXTS)
        assert next(stream).text == TEXTS[0]
        with pytest.raises(bertscope.InternalError) as caught:
            next(stream)
    assert caught.value.code == grpc.StatusCode.UNKNOWN
    assert len(server.requests) == 1


def test_unknown_events_are_skipped(server):
    def with_unknown_events(messages):
        for message in messages:
            yield attention_pb2.ExtractAttentionResponse()
            yield message

    server.stream = with_unknown_events
    with bertscope.Client(server.target) as client:
        assert len(list(client.extract_attention(TEXTS))) == 2
