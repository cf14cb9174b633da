"""Which calls a server that stops waits for."""

import asyncio
from typing import Any

from bertscope_service.running import RunningCalls


def test_a_call_runs_until_its_answer_has_left() -> None:
    async def run() -> None:
        running, context, answered, sent = RunningCalls(), object(), asyncio.Event(), asyncio.Event()

        async def call(context: Any) -> None:
            running.begin(context)
            running.end(context)
            answered.set()
            await sent.wait()

        assert not running
        task = asyncio.create_task(call(context))
        await answered.wait()
        assert running
        await running.finish(0.01)
        assert not task.done()
        finishing = asyncio.create_task(running.finish(20))
        await asyncio.sleep(0)
        assert not finishing.done()
        sent.set()
        await finishing
        assert task.done()
        assert not running

    asyncio.run(asyncio.wait_for(run(), 20))


def test_an_answer_that_is_being_sent_is_not_cut_off_by_another_status() -> None:
    async def run() -> None:
        running, answered, sent = RunningCalls(), asyncio.Event(), asyncio.Event()

        async def call(context: Any) -> str:
            running.begin(context)
            running.end(context)
            answered.set()
            await sent.wait()
            return "sent"

        task = asyncio.create_task(call(object()))  # no gRPC context: nothing may be said on it
        await answered.wait()
        await running.cut_off()
        assert not running
        sent.set()
        assert await task == "sent"

    asyncio.run(asyncio.wait_for(run(), 20))
