"""Which calls a server that stops waits for."""

import asyncio
from typing import Any

import pytest
from bertscope_service.rpc.calls_in_flight import CallsInFlight

pytestmark = pytest.mark.asyncio


async def test_a_call_runs_until_its_answer_has_left() -> None:
    calls, context, answered, sent = CallsInFlight(), object(), asyncio.Event(), asyncio.Event()

    async def call(context: Any) -> None:
        calls.begin(context)
        calls.end(context)
        answered.set()
        await sent.wait()

    assert not calls
    task = asyncio.create_task(call(context))
    await answered.wait()
    assert calls
    await calls.finish(0.01)
    assert not task.done()
    finishing = asyncio.create_task(calls.finish(20))
    await asyncio.sleep(0)
    assert not finishing.done()
    sent.set()
    await finishing
    assert task.done()
    assert not calls


async def test_an_answer_that_is_being_sent_is_not_cut_off_by_another_status() -> None:
    calls, answered, sent = CallsInFlight(), asyncio.Event(), asyncio.Event()

    async def call(context: Any) -> str:
        calls.begin(context)
        calls.end(context)
        answered.set()
        await sent.wait()
        return "sent"

    task = asyncio.create_task(call(object()))  # no gRPC context: nothing may be said on it
    await answered.wait()
    await calls.cut_off()
    assert not calls
    sent.set()
    assert await task == "sent"
