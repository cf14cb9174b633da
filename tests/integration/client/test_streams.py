"""Streams of every kind over a socket: what ends without its end is no result, and a stream that is left ends on the server."""

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import aclosing, closing
from typing import Any

import bertscope
import pytest

from tests.support.both_clients import asked, asked_async
from tests.support.fake_server import FakeServer
from tests.support.patience import granted

TEXTS = ["the cat sat", "a much longer text than that, of eleven words or so"]
PROMPTS = bertscope.ClozePrompts([("a [MASK]", "b")])
TARGET = bertscope.Answer("are", "is")
WHOLE: dict[str, tuple[Callable[[Any], Any], str]] = {
    "extract_attention": (lambda client: client.extract_attention(TEXTS), "ended early: 1 of 2"),
    "sweep_heads": (lambda client: client.sweep_heads(PROMPTS).table(), "ended early: 12 of 12 effects and no summary"),
    "sweep_sites": (lambda client: client.sweep_sites("a keys [MASK]", "a key [MASK]", TARGET).table(), "ended early"),
    "compress_model": (lambda client: client.compress_model("x", bertscope.int8()), "without a model"),
    "benchmark_models": (lambda client: client.benchmark_models("x"), "without a report"),
    "benchmark_studies": (lambda client: client.benchmark_studies().table(), "2 systems and no summary"),
}
"""Calls that read a stream to its end, and what is said of one that lacks it."""

each_stream = pytest.mark.parametrize("name", WHOLE)


@each_stream
def test_a_stream_without_its_end_is_an_invalid_reply(server: FakeServer, name: str) -> None:
    server.stream = lambda messages: iter([*messages][:-1])
    ask, said = WHOLE[name]
    for reading in (asked, asked_async):
        with pytest.raises(bertscope.InvalidReply, match=said):
            reading(server.target, ask)
    assert server.ended.wait(granted(30))


@each_stream
def test_events_of_a_newer_server_are_passed_over(server: FakeServer, name: str) -> None:
    ask, _ = WHOLE[name]
    assert asked(server.target, ask)

    def with_unknown_events(messages: Iterator[Any]) -> Iterator[Any]:
        for message in messages:
            yield type(message)()
            yield message

    server.stream = with_unknown_events
    assert asked(server.target, ask)


@pytest.fixture
def stuck(server: FakeServer, wait_for: threading.Event) -> FakeServer:
    """A server whose streams stop after their third message, until the call or the test ends."""

    def stream(messages: Iterator[Any]) -> Iterator[Any]:
        yield from itertools.islice(messages, 3)
        wait_for.wait(granted(60))

    server.stream = stream
    return server


LEFT: dict[str, Callable[[Any], Any]] = {
    "extract_attention": lambda client: client.extract_attention(TEXTS),
    "sweep_heads": lambda client: client.sweep_heads(PROMPTS),
    "sweep_sites": lambda client: client.sweep_sites("a keys [MASK]", "a key [MASK]", TARGET),
    "benchmark_studies": lambda client: client.benchmark_studies(),
}
"""Streams that a caller may leave after what came first."""


@pytest.mark.parametrize("name", LEFT)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_stream_that_is_closed_ends_on_the_server(stuck: FakeServer, name: str, asynchronous: bool) -> None:
    async def leave() -> None:
        async with bertscope.AsyncClient(stuck.target) as client, aclosing(LEFT[name](client)) as stream:
            await anext(stream)
            assert not stuck.ended.is_set()

    if asynchronous:
        asyncio.run(leave())
    else:
        with bertscope.Client(stuck.target) as client, closing(LEFT[name](client)) as stream:
            next(stream)
            assert not stuck.ended.is_set()
    assert stuck.ended.wait(granted(30))


class Enough(Exception):
    """What a listener may raise."""


HEARD: dict[str, Callable[[Any, Any], Any]] = {
    "compress_model": lambda client, listen: client.compress_model("x", bertscope.int8(), on_progress=listen),
    "benchmark_models": lambda client, listen: client.benchmark_models("x", on_progress=listen),
    "benchmark_studies": lambda client, listen: client.benchmark_studies(on_progress=listen).table(),
}


@pytest.mark.parametrize("name", HEARD)
def test_an_exception_of_the_listener_ends_the_call(stuck: FakeServer, name: str) -> None:
    def listen(progress: object) -> None:
        raise Enough

    with bertscope.Client(stuck.target) as client, pytest.raises(Enough):
        HEARD[name](client, listen)
    assert stuck.ended.wait(granted(30))
