"""ExtractAttention over a socket: what arrives, when it arrives, and what happens when it does not."""

import itertools

import bertscope
import grpc
import pytest

TEXTS = ["the cat sat", "a much longer text than that, of eleven words or so"]


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
