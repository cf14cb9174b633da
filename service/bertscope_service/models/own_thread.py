"""Runs the work of a load in a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from bertscope_service.models.memory import forget_locals, give_back

T = TypeVar("T")


async def in_own_thread(work: Callable[[], T]) -> T:
    """Runs some work in a thread that ends with it.

    OpenMP keeps a team of threads for every thread that ever used PyTorch. If there are more of them than cores, all of them
    sleep instead of spinning: a batch takes up to twice as long. A thread's team ends with the thread. Failed work leaves no
    memory in its error, and freed memory returns to the system.
    """

    def run() -> T:
        try:
            return work()
        except BaseException as error:
            forget_locals(error)
            raise
        finally:
            give_back()

    executor = ThreadPoolExecutor(1, thread_name_prefix="bertscope-load")
    try:
        return await asyncio.get_running_loop().run_in_executor(executor, run)
    finally:
        executor.shutdown(wait=False)
