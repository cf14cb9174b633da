"""Returns to the system what large calls have freed: the C library would keep it, for each thread that ever allocated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from bertscope_service.models.memory import give_back

LARGE_BYTES = 1024 * 1024
"""Calls that held less are not counted: their memory is used again by the next ones."""

FREED_BYTES = 64 * 1024 * 1024
"""So much is returned. It takes some milliseconds of a thread, and the system some more to give new pages to the next calls."""

WAIT_SECONDS = 2.0
"""It is returned so long after calls have freed so much, which is then really free, and therefore not more often."""


class FreedMemory:
    """Counts what calls free, and returns it. Belongs to the event loop."""

    def __init__(self, give: Callable[[], None] = give_back) -> None:
        """`give` returns freed memory to the system; in a thread."""
        self._give = give
        self._bytes = 0
        self.waiting = False
        """True while memory is about to be returned."""

    def add(self, size: int) -> None:
        """Notes that a call frees so many bytes."""
        if size >= LARGE_BYTES:
            self._bytes += size
            if self._bytes >= FREED_BYTES and not self.waiting:
                self.waiting = True
                asyncio.get_running_loop().call_later(WAIT_SECONDS, self._begin)

    def _begin(self) -> None:
        self._bytes, self.waiting = 0, False
        asyncio.get_running_loop().run_in_executor(None, self._give)
