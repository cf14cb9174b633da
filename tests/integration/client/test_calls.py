"""Both clients against a server on a socket: the same calls give the same results and the same errors."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import bertscope
import grpc
import pytest

from tests.support.both_clients import asked, asked_async
from tests.support.patience import granted

TEXT = "Paris is the capital of [MASK]."
LOSS = bertscope.MaskedLmLoss("a text")


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.fill_mask([TEXT, "A [MASK]"], top_k=2),
        lambda client: client.fill_mask(TEXT, candidates=["France", "Spain"]),
        lambda client: client.classify(["good", ("a", "b")]),
        lambda client: client.prune_heads("small", {1: [0, 2], 2: None}),
        lambda client: client.list_models(),
        lambda client: client.get_model("fake"),
        lambda client: client.load_model("x", source="org/y"),
        lambda client: client.load_model("x", source="org/y", replace=True),
        lambda client: client.load_model_events(source="org/y", replace=True),
        lambda client: client.unload_model("fake"),
        lambda client: client.health(),
        lambda client: client.wait_until_serving(),
    ],
)
def test_both_clients_give_equal_results(server, call):
    assert asked(server.target, call) == asked_async(server.target, call)


def test_list_models_fetches_all_pages(server):
    server.names = [f"models/m{index}" for index in range(7)]
    server.page_size = 3
    for ask in (asked, asked_async):
        assert [model.name for model in ask(server.target, lambda client: client.list_models())] == server.names
    assert len(server.requests) == 6


def test_load_model_reports_progress(server):
    seen: list[bertscope.LoadProgress] = []
    with bertscope.Client(server.target) as client:
        model = client.load_model(source="org/new", on_progress=seen.append)
    assert model.name == "models/new"
    assert [progress.done_bytes for progress in seen] == [0, 50, 100]
    assert seen[0].stage == "reading"


@pytest.mark.slow
@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.list_models(),
        lambda client: client.get_model(),
        lambda client: client.fill_mask(TEXT),
        lambda client: client.extract_attention(TEXT),
        lambda client: client.classify(TEXT),
        lambda client: client.rank_heads(LOSS),
        lambda client: client.sweep_heads(LOSS),
    ],
)
def test_what_a_server_that_stops_says_is_asked_again_where_asking_twice_is_harmless(server, call):
    failures = {"left": 2}

    def fail(context: grpc.ServicerContext) -> None:
        if failures["left"]:
            failures["left"] -= 1
            context.abort((grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)[failures["left"]], "draining")

    server.fail = fail
    soon = bertscope.Retries(first_seconds=0.01)
    assert asked(server.target, call, retries=soon)
    assert failures["left"] == 0
    assert len(server.requests) == 3
    failures["left"] = 2
    assert asked_async(server.target, call, retries=soon)
    assert failures["left"] == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.load_model(source="x"),
        lambda client: client.unload_model("x"),
        lambda client: client.prune_heads("x", {0: 1}),
    ],
)
def test_unavailable_is_not_retried_where_it_is_not(server, call):
    server.fail = lambda context: context.abort(grpc.StatusCode.UNAVAILABLE, "draining")
    with bertscope.Client(server.target) as client, pytest.raises(bertscope.Unavailable, match="draining"):
        call(client)
    assert len(server.requests) == 1


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED])
def test_a_stream_that_has_begun_is_not_asked_again(server, code):
    contexts: list[grpc.ServicerContext] = []

    def end(messages: Iterator[Any]) -> Iterator[Any]:
        yield next(messages)
        contexts[-1].abort(code, "draining")

    server.fail, server.stream = contexts.append, end
    with bertscope.Client(server.target) as client, pytest.raises((bertscope.Unavailable, bertscope.Cancelled)):
        list(client.sweep_heads(LOSS))
    assert len(server.requests) == 1


@pytest.mark.slow
def test_the_deadline_ends_a_call(server):
    release = threading.Event()
    server.fail = lambda context: release.wait(granted(30))
    try:
        with bertscope.Client(server.target, timeout=0.2) as client:
            for call in (client.list_models, lambda: list(client.extract_attention("x", timeout=0.2))):
                with pytest.raises(bertscope.DeadlineExceeded) as caught:
                    call()
                assert isinstance(caught.value, TimeoutError)
                assert str(caught.value) == "no answer within 0.2 s; allow more with timeout="
        with pytest.raises(bertscope.DeadlineExceeded, match=r"no answer within 0\.2 s"):
            asked_async(server.target, lambda client: client.fill_mask(TEXT, timeout=0.2))
    finally:
        release.set()


def test_a_closed_client_says_so(server):
    client = bertscope.Client(server.target)
    client.close()
    with pytest.raises(RuntimeError, match="closed"):
        client.list_models()
    with pytest.raises(RuntimeError, match="closed"):
        next(client.extract_attention("x"))

    async def ask() -> None:
        client = bertscope.AsyncClient(server.target)
        await client.close()
        await client.list_models()

    with pytest.raises(RuntimeError, match="closed"):
        asyncio.run(ask())


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.list_models(),
        lambda client: anext(client.extract_attention("x")),
        lambda client: client.load_model(source="x"),
    ],
)
def test_calls_that_run_when_the_client_is_closed_raise_cancelled(server, wait_for, call):
    began = threading.Event()

    def fail(context: grpc.ServicerContext) -> None:
        began.set()
        wait_for.wait(granted(30))

    server.fail = fail

    async def close() -> None:
        client = bertscope.AsyncClient(server.target)
        task = asyncio.ensure_future(call(client))
        await asyncio.to_thread(began.wait, granted(30))
        await client.close()
        with pytest.raises(bertscope.Cancelled, match="closed"):
            await task

    async def cancel() -> None:
        async with bertscope.AsyncClient(server.target) as client:
            task = asyncio.ensure_future(call(client))
            await asyncio.to_thread(began.wait, granted(30))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(close())
    began.clear()
    asyncio.run(cancel())


@pytest.mark.slow
def test_wait_until_serving_waits(server):
    server.health.set("", 2)
    with bertscope.Client(server.target) as client:
        with pytest.raises(bertscope.DeadlineExceeded):
            client.wait_until_serving(timeout=0.2)
        waiter = threading.Thread(target=client.wait_until_serving, daemon=True)
        waiter.start()
        server.health.set("", 1)
        waiter.join(granted(30))
        assert not waiter.is_alive()
