"""Any number of texts: calls that the server takes, a few at a time, answers in order, nothing left behind."""

import asyncio
import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import aclosing, closing
from typing import Any

import bertscope
import pytest
from bertscope.rpc.splitting import CALLS_UNDER_WAY
from google.protobuf.duration_pb2 import Duration
from google.rpc import code_pb2, error_details_pb2

from tests.support.both_clients import BOTH
from tests.support.fake_server import FakeServer, refuse, refuse_field
from tests.support.patience import granted


def at_most(limit: int, field: str = "texts") -> Callable[[Any, Any], None]:
    """A server that takes so many texts."""

    def judge(request: Any, context: Any) -> None:
        if len(getattr(request, field)) > limit:
            refuse_field(context, field, f"has more than {limit} entries", "TOO_MANY_TEXTS", limit=str(limit))

    return judge


def texts(count: int) -> list[str]:
    return [f"Number {index} is [MASK]." for index in range(count)]


def fill(ask: Any, server: FakeServer, given: Any) -> list[str]:
    return [answer.text for answer in ask(server.target, lambda client: client.fill_mask(given))]


@BOTH
def test_a_server_that_takes_fewer_is_asked_in_smaller_calls(server, ask, caplog):
    assert fill(ask, server, texts(256)) == texts(256)
    assert len(server.requests) == 1
    server.requests.clear()
    server.judge = at_most(10)
    with caplog.at_level(logging.INFO, "bertscope"):
        assert fill(ask, server, texts(95)) == texts(95)
    assert sum(len(request.texts) <= 10 for request in server.requests) == 10
    assert "95 texts is too large for the server (TOO_MANY_TEXTS)" in caplog.text
    assert "Number" not in caplog.text


def test_the_limit_is_learned_once(server):
    server.judge = at_most(10)
    with bertscope.Client(server.target) as client:
        client.fill_mask(texts(30))
        before = len(server.requests)
        client.fill_mask(texts(30))
    assert [len(request.texts) for request in server.requests[before:]] == [10, 10, 10]


@BOTH
@pytest.mark.parametrize("reason", ["TOO_MANY_TOKENS", "TOO_MANY_PREDICTIONS"])
def test_calls_with_too_much_work_are_halved(server, ask, reason):
    def judge(request: Any, context: Any) -> None:
        if len(request.texts) > 30:
            refuse_field(context, "texts", "are too much", reason, limit="1000000")

    server.judge = judge
    assert fill(ask, server, texts(300)) == texts(300)


@BOTH
def test_what_cannot_be_sent_is_found_before_anything_is_sent(server, ask):
    with pytest.raises(bertscope.InvalidArgument) as caught:
        fill(ask, server, [*texts(600), 7])
    assert caught.value.field_violations[0].field == "texts[600]"
    assert server.requests == []


def test_a_stream_gives_what_came_before_a_bad_text(server):
    came: list[str] = []

    def read(stream: Iterator[Any]) -> None:
        came.extend(answer.text for answer in stream)

    with bertscope.Client(server.target) as client, pytest.raises(bertscope.InvalidArgument, match=r"texts\[100\]"):
        read(client.fill_mask_stream(iter([*texts(100), 7])))
    assert came == texts(100)


def test_an_exception_of_the_generator_comes_through(server):
    def broken() -> Iterator[str]:
        yield from texts(10)
        raise LookupError("no more")

    with bertscope.Client(server.target) as client, pytest.raises(LookupError, match="no more"):
        client.fill_mask(broken())


def test_a_generator_is_read_no_further_than_the_calls_under_way_need(server):
    taken = 0

    def endless() -> Iterator[str]:
        nonlocal taken
        while True:
            taken += 1
            yield "It is [MASK]."

    with bertscope.Client(server.target) as client, closing(client.fill_mask_stream(endless())) as stream:
        next(stream)
        assert taken <= (CALLS_UNDER_WAY + 1) * 256
        for _ in range(3000):
            next(stream)
        assert taken <= 3001 + (CALLS_UNDER_WAY + 1) * 256


def held(server: FakeServer, release: threading.Event) -> tuple[threading.Event, threading.Event]:
    """A server that answers the first call and holds the others: when as many as may be are under way, and when they ended."""
    all_begun, all_ended, lock = threading.Event(), threading.Event(), threading.Lock()
    counts = {"begun": 0, "ended": 0}

    def count(what: str, event: threading.Event) -> None:
        with lock:
            counts[what] += 1
            if counts[what] >= CALLS_UNDER_WAY - 1:
                event.set()

    def judge(request: Any, context: Any) -> None:
        if "Number 0 is [MASK]." in request.texts:
            return
        context.add_callback(lambda: count("ended", all_ended))
        count("begun", all_begun)
        release.wait(granted(30))

    server.judge = judge
    return all_begun, all_ended


def test_closing_the_stream_cancels_the_calls_under_way_async(server, wait_for):
    begun, ended = held(server, wait_for)

    async def ask() -> None:
        async with bertscope.AsyncClient(server.target) as client:
            async with aclosing(client.fill_mask_stream(iter(texts(2000)))) as stream:
                assert (await anext(stream)).text == texts(1)[0]
                assert await asyncio.to_thread(begun.wait, granted(10))
            assert await asyncio.to_thread(ended.wait, granted(10))

    asyncio.run(ask())


def test_cancelling_the_task_cancels_the_calls_under_way(server, wait_for):
    begun, ended = held(server, wait_for)

    async def ask() -> None:
        async with bertscope.AsyncClient(server.target) as client:
            task = asyncio.create_task(client.fill_mask(iter(texts(2000))))
            assert await asyncio.to_thread(begun.wait, granted(10))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.to_thread(ended.wait, granted(10))
            assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(ask())


INTERRUPTED = """
import signal, sys, bertscope
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background processes ignore it
with bertscope.Client(sys.argv[1]) as client:
    try:
        client.fill_mask(f"{number} is [MASK]." for number in range(2000))
    except KeyboardInterrupt:
        print("interrupted")
"""


@pytest.mark.slow
def test_ctrl_c_cancels_the_calls_under_way(server, wait_for):
    """An interrupt comes while answers are waited for, in a process of its own: test runners end by it, too."""
    begun, ended = held(server, wait_for)
    with subprocess.Popen([sys.executable, "-c", INTERRUPTED, server.target], stdout=subprocess.PIPE, text=True) as process:
        assert begun.wait(granted(60))
        process.send_signal(signal.SIGINT)
        assert ended.wait(granted(20))
        assert process.communicate(timeout=granted(60))[0] == "interrupted\n"
    assert process.returncode == 0


@BOTH
def test_an_overloaded_server_is_asked_again_for_a_part_of_many(server, ask, caplog):
    refused: list[int] = []

    def judge(request: Any, context: Any) -> None:
        if texts(200)[100] in request.texts and len(refused) < 2:
            refused.append(1)
            delay = error_details_pb2.RetryInfo(retry_delay=Duration(nanos=10_000_000))
            refuse(context, code_pb2.RESOURCE_EXHAUSTED, "the queue is full", "QUEUE_FULL", delay)

    server.judge = judge
    with caplog.at_level(logging.INFO, "bertscope"):
        assert fill(ask, server, iter(texts(200))) == texts(200)
    assert len(refused) == 2
    assert "overloaded (QUEUE_FULL)" in caplog.text


def overloaded_from(number: int, of: Callable[[Any], list[str]]) -> Callable[[Any, Any], None]:
    """A server that refuses every call about a text from this number on."""

    def judge(request: Any, context: Any) -> None:
        if any(int(text.split()[1]) >= number for text in of(request)):
            delay = error_details_pb2.RetryInfo(retry_delay=Duration(nanos=1_000_000))
            refuse(context, code_pb2.RESOURCE_EXHAUSTED, "the queue is full", "QUEUE_FULL", delay)

    return judge


@BOTH
def test_an_overload_that_lasts_leaves_what_was_answered(server, ask):
    server.judge = overloaded_from(130, lambda request: request.texts)
    with pytest.raises(bertscope.ResourceExhausted) as caught:
        fill(ask, server, iter(texts(200)))
    kept, answered = caught.value.partial, caught.value.answered
    assert 0 < answered <= 130
    assert [one.text for one in kept] == texts(answered)
    server.judge = lambda request, context: None
    assert [*(one.text for one in kept), *fill(ask, server, texts(200)[answered:])] == texts(200)
    server.judge = overloaded_from(0, lambda request: request.texts)
    with pytest.raises(bertscope.ResourceExhausted) as caught:
        fill(ask, server, iter(texts(200)))
    assert (caught.value.partial, caught.value.answered) == (None, 0)


def test_a_sum_of_many_calls_is_kept_and_goes_on(server):
    every = [bertscope.RelationText(f"Number {index} is", [("a", 0, 1)] if index % 3 else []) for index in range(300)]
    with bertscope.Client(server.target) as client:
        whole = client.score_relations(iter(every))
        small, busy = at_most(30), overloaded_from(160, lambda request: [text.input.text for text in request.texts])
        server.judge = lambda request, context: (small(request, context), busy(request, context))
        with pytest.raises(bertscope.ResourceExhausted) as caught:
            client.score_relations(iter(every))
        kept, answered = caught.value.partial, caught.value.answered
        assert isinstance(kept, bertscope.RelationScores)
        assert 0 < answered <= 160
        assert kept.texts == sum(bool(text.pairs) for text in every[:answered])
        server.judge = lambda request, context: None
        merged = bertscope.RelationScores.merge([kept, client.score_relations(every[answered:])])
    assert (merged.texts, merged["a"].pairs) == (whole.texts, whole["a"].pairs)
