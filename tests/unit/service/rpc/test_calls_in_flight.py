"""Which calls a server that stops waits for, and how calls that are cut off are counted."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from bertscope_service.observability.metrics import MethodMetrics, Metrics
from bertscope_service.rpc.call_stages import Call, Calls
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


@pytest.mark.parametrize(("left", "code"), [(0.0, "DEADLINE_EXCEEDED"), (1.0, "CANCELLED"), (None, "CANCELLED")])
async def test_a_call_that_is_cut_off_at_its_deadline_was_late(left: float | None, code: str) -> None:
    context: Any = SimpleNamespace(
        peer=str, invocation_metadata=tuple, set_trailing_metadata=lambda _: None, time_remaining=lambda: left
    )
    metrics, others, method = Metrics(), [None] * 4, SimpleNamespace(name="FillMask")
    call = Call(Calls(metrics, *others), method, MethodMetrics(metrics, "FillMask"), context)
    call.cut_off()
    call.end()
    assert metrics.registry.get_sample_value("bertscope_requests_total", {"method": "FillMask", "code": code}) == 1
