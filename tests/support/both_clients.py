"""A call of the client that waits and of the one that is awaited; what they give as a stream is read to its end."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import bertscope
import pytest


def asked(target: str, call: Callable[[Any], Any], **options: Any) -> Any:
    with bertscope.Client(target, **options) as client:
        answer = call(client)
        return list(answer) if isinstance(answer, Iterator) else answer


def asked_async(target: str, call: Callable[[Any], Any], **options: Any) -> Any:
    async def work() -> Any:
        async with bertscope.AsyncClient(target, **options) as client:
            answer = call(client)
            return [item async for item in answer] if isinstance(answer, AsyncIterator) else await answer

    return asyncio.run(work())


BOTH = pytest.mark.parametrize("ask", [asked, asked_async], ids=["Client", "AsyncClient"])
