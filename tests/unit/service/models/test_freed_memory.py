"""Memory that large calls held is returned to the system once they have ended, and small calls cause nothing."""

import asyncio

import pytest
from bertscope_service.api.reply_memory import ReplyMemory
from bertscope_service.api.request_memory import PARSED_BYTES, REQUESTS_BYTES, RequestMemory
from bertscope_service.errors import Overloaded
from bertscope_service.models import freed_memory
from bertscope_service.models.freed_memory import FREED_BYTES, LARGE_BYTES, FreedMemory
from bertscope_service.observability.metrics import Metrics


@pytest.mark.asyncio
async def test_what_calls_held_is_returned_after_they_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freed_memory, "WAIT_SECONDS", 0.0)
    loop, given = asyncio.get_running_loop(), asyncio.Queue[None]()
    freed = FreedMemory(lambda: asyncio.run_coroutine_threadsafe(given.put(None), loop).result())
    replies, requests = ReplyMemory(Metrics(), freed), RequestMemory(Metrics(), freed)

    async def call(size: int) -> None:
        replies.hold("one", size)

    async def refused() -> None:
        with pytest.raises(Overloaded):
            requests.receive("one", REQUESTS_BYTES // PARSED_BYTES)

    for _ in range(2 * FREED_BYTES // LARGE_BYTES):
        await asyncio.create_task(call(LARGE_BYTES - 1))
    await asyncio.create_task(call(FREED_BYTES - 1))
    await asyncio.sleep(0)
    assert not freed.waiting
    await asyncio.gather(*(asyncio.create_task(call(LARGE_BYTES)) for _ in range(10)))
    await given.get()
    assert given.empty()  # once for all of them

    requests.receive("other", LARGE_BYTES)
    await asyncio.create_task(refused())
    await given.get()  # what a refused request took is freed, too
