"""Streams how far some long work is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


async def progress_of(
    work: Callable[[Callable[[T], None]], Coroutine[Any, Any, object]], stage: Callable[[T], Hashable]
) -> AsyncGenerator[T, None]:
    """Do some work and yield what it reports, which may come from any thread; raises what it raises.

    Of the reports of one `stage` only the newest is kept: a slow reader must not make a list grow. Closing the generator
    cancels the work.
    """
    loop, news = asyncio.get_running_loop(), asyncio.Event()
    latest: list[T] = []

    def note(progress: T) -> None:
        if latest and stage(latest[-1]) == stage(progress):
            latest.pop()
        latest.append(progress)
        news.set()

    def report(progress: T) -> None:
        loop.call_soon_threadsafe(note, progress)

    task = asyncio.create_task(work(report))
    task.add_done_callback(lambda _: news.set())
    told: T | None = None
    try:
        while not task.done() or latest:
            await news.wait()
            news.clear()
            for progress in [latest.pop(0) for _ in range(len(latest))]:
                if progress != told:
                    yield progress
                told = progress
        await task
    finally:
        task.cancel()
