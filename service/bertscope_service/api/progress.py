"""Streams the progress of long work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


async def progress_of(
    work: Callable[[Callable[[T], None]], Coroutine[Any, Any, object]], stage: Callable[[T], Hashable]
) -> AsyncGenerator[T, None]:
    """Runs some work and yields its reports, which may come from any thread; raises the work's errors.

    Only the newest report of each `stage` is kept, so that a slow reader makes no list grow. Closing the generator cancels the
    work.
    """
    loop, changed = asyncio.get_running_loop(), asyncio.Event()
    latest: list[T] = []

    def note(progress: T) -> None:
        if latest and stage(latest[-1]) == stage(progress):
            latest.pop()
        latest.append(progress)
        changed.set()

    def report(progress: T) -> None:
        loop.call_soon_threadsafe(note, progress)

    task = asyncio.create_task(work(report))
    task.add_done_callback(lambda _: changed.set())
    last: T | None = None
    try:
        while not task.done() or latest:
            await changed.wait()
            changed.clear()
            for progress in [latest.pop(0) for _ in range(len(latest))]:
                if progress != last:
                    yield progress
                last = progress
        await task
    finally:
        task.cancel()
        # The task's error has this frame in its traceback; a reference from the frame would keep both alive.
        del task
