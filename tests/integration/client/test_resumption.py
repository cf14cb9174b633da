"""ExtractAttention streams that break off, and what the clients still give."""

import itertools

import bertscope
import grpc
import numpy as np
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc import code_pb2, error_details_pb2

from tests.support.both_clients import asked_async
from tests.support.fake_server import attention_of, refuse

TEXTS = ["the cat sat", "a much longer text than that, of eleven words or so", "the end"]


class Breaks:
    """Breaks streams of a fake server off, each after some messages; those that come after the last break are whole."""

    def __init__(self, server, *, after, code=grpc.StatusCode.UNAVAILABLE):
        self._after = iter(after)
        self._code = code
        self.seconds = []
        server.fail = self._note
        server.stream = self._cut

    def _note(self, context):
        self._context = context
        self.seconds.append(context.time_remaining())

    def _cut(self, messages):
        number = next(self._after, None)
        yield from itertools.islice(messages, number)
        if number is None:
            return
        self._context.abort(self._code, "gone")


def messages_of(server, *texts):
    """How many messages the server sends for these texts."""
    with bertscope.Client(server.target) as client:
        counted = []

        def count(messages):
            for message in messages:
                counted.append(message)
                yield message

        server.stream = count
        list(client.extract_attention(list(texts)))
    server.requests.clear()
    return len(counted)


def check(found):
    assert [(maps.input_index, maps.text) for maps in found] == list(enumerate(TEXTS))
    for maps in found:
        np.testing.assert_array_equal(maps.attention, attention_of(maps.text, [0, 1, 2], [0, 1, 2, 3]))


def asked(server):
    return [[each.text for each in request.inputs] for request in server.requests]


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL])
def test_what_is_missing_is_asked_for_again(server, code):
    first = messages_of(server, TEXTS[0])
    Breaks(server, after=[first, 1], code=code)
    with bertscope.Client(server.target) as client:
        check(list(client.extract_attention(TEXTS)))
    assert asked(server) == [TEXTS, TEXTS[1:], TEXTS[1:]]
    assert server.requests[0].dtype == server.requests[2].dtype


def test_the_async_client_does_the_same(server):
    first = messages_of(server, TEXTS[0])
    Breaks(server, after=[first + 1])
    check(asked_async(server.target, lambda client: client.extract_attention(TEXTS)))
    assert asked(server) == [TEXTS, TEXTS[1:]]


def test_a_stream_that_breaks_off_behind_its_last_text_is_complete(server):
    everything = messages_of(server, *TEXTS)
    Breaks(server, after=[everything])
    with bertscope.Client(server.target) as client:
        check(list(client.extract_attention(TEXTS)))
    assert asked(server) == [TEXTS]


def test_a_text_that_never_arrives_is_asked_for_four_times(server):
    first = messages_of(server, TEXTS[0])
    Breaks(server, after=[first, *[1] * 9])
    with bertscope.Client(server.target) as client:
        stream = client.extract_attention(TEXTS)
        assert next(stream).text == TEXTS[0]
        with pytest.raises(bertscope.Unavailable, match="gone"):
            next(stream)
    assert asked(server) == [TEXTS, *[TEXTS[1:]] * 3]


def test_a_model_with_other_weights_does_not_go_on(server):
    first = messages_of(server, TEXTS[0])
    Breaks(server, after=[first])
    cut, calls = server.stream, itertools.count()

    def other_weights(messages):
        number = next(calls)
        for message in cut(messages):
            if number and message.HasField("header"):
                message.header.provenance.weights_digest = f"sha256:{'f' * 64}"
            yield message

    server.stream = other_weights
    with bertscope.Client(server.target) as client:
        stream = client.extract_attention(TEXTS)
        assert next(stream).text == TEXTS[0]
        with pytest.raises(bertscope.FailedPrecondition, match="other weights; ask for all texts again"):
            next(stream)
    assert asked(server) == [TEXTS, TEXTS[1:]]


def test_all_streams_together_have_the_time_of_the_call(server, monkeypatch):
    """On a clock that goes 20 seconds on in each stream. Two of three texts are asked for first, in three streams."""
    now, limit = 0.0, 90

    def pass_time(messages):
        nonlocal now
        now += 20
        return cut(messages)

    first = messages_of(server, TEXTS[0])
    breaks = Breaks(server, after=[first, 1])
    cut, server.stream = server.stream, pass_time
    monkeypatch.setattr("bertscope.rpc.resumption.monotonic", lambda: now)
    monkeypatch.setattr("bertscope.rpc.splitting.Limit.texts", 2)
    with bertscope.Client(server.target) as client:
        check(list(client.extract_attention(iter(TEXTS), timeout=limit)))
    assert asked(server) == [TEXTS[:2], TEXTS[1:2], TEXTS[1:2], TEXTS[2:]]
    assert [round(seconds / 10) for seconds in breaks.seconds] == [9, 7, 5, 3]


def test_texts_that_came_are_not_asked_for_again_when_another_server_is_busy(server):
    """One server goes away, the one that takes over is busy at first: each text comes once."""
    first = messages_of(server, TEXTS[0])
    breaks = Breaks(server, after=[first])
    note = server.fail

    def busy_once(context):
        note(context)
        if len(breaks.seconds) == 2:
            soon = error_details_pb2.RetryInfo(retry_delay=Duration(nanos=1_000_000))
            refuse(context, code_pb2.RESOURCE_EXHAUSTED, "busy", "BUSY", soon)

    server.fail = busy_once
    with bertscope.Client(server.target) as client:
        check(list(client.extract_attention(TEXTS)))
    assert asked(server)[-1] == TEXTS[1:]


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
