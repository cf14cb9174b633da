"""Ends work in threads when its caller has gone or its deadline has passed. Threads can't be interrupted, so each loop over a
caller's data calls `check` once for each text or item."""

from __future__ import annotations

import time
from contextvars import ContextVar
from dataclasses import dataclass

from bertscope_service.errors import DeadlineExceeded


class WorkCancelledError(Exception):
    """Nobody waits for the result of this work any more. It never reaches a caller."""


@dataclass(slots=True, eq=False)
class Cancellation:
    """Tells some work to end: `cancelled` is set by any thread; `deadline` is a time.monotonic(), None for none."""

    deadline: float | None = None
    cancelled: bool = False

    def check(self) -> None:
        """Raises WorkCancelledError or DeadlineExceeded if the work should end."""
        if self.cancelled:
            raise WorkCancelledError
        if self.deadline is not None and time.monotonic() >= self.deadline:
            raise DeadlineExceeded("the deadline passed while the request was read; give it more time", "DEADLINE_IN_QUEUE")


current: ContextVar[Cancellation | None] = ContextVar("cancellation", default=None)
"""The cancellation of the work that runs in this thread."""


def check() -> None:
    """Raises WorkCancelledError or DeadlineExceeded if the work of this thread should end; does nothing elsewhere."""
    found = current.get()
    if found is not None:
        found.check()
