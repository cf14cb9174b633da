"""How far long work is, told while it goes on."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import aclosing

import pytest
from bertscope_service.api.progress import progress_of

pytestmark = pytest.mark.asyncio
Report = Callable[[tuple[str, int]], None]


def stage(progress: tuple[str, int]) -> str:
    return progress[0]


async def test_a_slow_reader_gets_the_newest_of_each_stage() -> None:
    async def work(report: Report) -> None:
        for name in ("read", "write", "read"):
            for number in range(1000):
                report((name, number))

    async with aclosing(progress_of(work, stage)) as found:
        seen = [progress async for progress in found]
    assert seen == [("read", 999), ("write", 999), ("read", 999)]


async def test_nothing_is_told_twice() -> None:
    told = asyncio.Event()

    async def work(report: Report) -> None:
        report(("read", 0))
        await told.wait()
        report(("read", 0))
        report(("write", 1))

    seen = []
    async with aclosing(progress_of(work, stage)) as found:
        async for progress in found:
            seen.append(progress)
            told.set()
    assert seen == [("read", 0), ("write", 1)]


async def test_reports_from_a_thread_come_before_the_error() -> None:
    async def work(report: Report) -> None:
        thread = threading.Thread(target=report, args=(("read", 1),))
        thread.start()
        await asyncio.to_thread(thread.join)
        raise LookupError("gone")

    async with aclosing(progress_of(work, stage)) as found:
        assert await anext(found) == ("read", 1)
        with pytest.raises(LookupError):
            await anext(found)
