"""Runs work beside the event loop, in threads that never keep the process alive."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


async def in_daemon_thread(work: Callable[[], T], name: str = "bertscope-stop") -> T:
    """Runs some work in a thread of its own, which never keeps the process alive: for what a stop waits for, or must not wait
    for."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(set_outcome: Callable[[Any], None], outcome: object) -> None:
        if not done.done():
            set_outcome(outcome)

    def run() -> None:
        with suppress(RuntimeError):  # the loop was closed meanwhile
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 - any error belongs to the caller
                loop.call_soon_threadsafe(settle, done.set_exception, error)
            else:
                loop.call_soon_threadsafe(settle, done.set_result, result)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await done
