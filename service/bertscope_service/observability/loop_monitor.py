"""Measures how late the callbacks of an event loop run, and names the code that holds it.

A callback that computes delays every other call, health included, and asyncio tells of it in debug mode alone.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

BEAT_SECONDS = 0.1
"""How often the loop's delay is measured. Each time costs it some microseconds."""

HELD_SECONDS = 0.25
"""A loop that is held for longer is reported."""

LOOKS = 2
"""The monitor's thread looks at the loop so many times in HELD_SECONDS."""

LOOPS_OWN = frozenset({"base_events.py", "runners.py", "selectors.py", "threading.py"})
"""Files of the standard library in which a loop waits; uvloop has no functions of its own, and waits below one of these."""

FRAMES = 8
"""So many of the innermost functions are named."""

logger = logging.getLogger(__name__)


class LoopMonitor:
    """Measures the delay of the running loop all the time.

    `observe` gets each delay in seconds, on the loop. A loop that is held for over HELD_SECONDS is logged from a thread, with
    the functions that run on it, while they still run; and once more when it goes on, with the seconds.
    """

    def __init__(self, observe: Callable[[float], None]) -> None:
        self._observe = observe
        self._ended = threading.Event()
        self._due = 0.0
        self._reported = 0.0
        """The `_due` of the beat whose delay was logged."""
        self._next: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Starts to measure the running loop; on the loop."""
        loop = asyncio.get_running_loop()
        self._await_beat(loop)
        thread = threading.Thread(target=self._look, args=(threading.get_ident(),), name="bertscope-loop-monitor", daemon=True)
        thread.start()

    def end(self) -> None:
        """Ends the measurement; on the loop."""
        self._ended.set()
        if self._next is not None:
            self._next.cancel()

    def _await_beat(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = time.monotonic() + BEAT_SECONDS
        self._next = loop.call_later(BEAT_SECONDS, self._beat, loop)

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        due = self._due
        delay = max(0.0, time.monotonic() - due)
        self._await_beat(loop)
        self._observe(delay)
        if self._reported == due:
            logger.warning("the event loop goes on: it was held for %.2f s", delay)

    def _look(self, loop_thread: int) -> None:
        """Looks at the loop until the end; on the monitor's own thread."""
        seen = 0.0
        while not self._ended.wait(HELD_SECONDS / LOOKS):
            due = self._due
            delay = time.monotonic() - due
            frame = sys._current_frames().get(loop_thread)
            if delay > HELD_SECONDS and seen != due and frame is not None:
                seen = due
                # Imports of large libraries, while the server starts, keep the interpreter for long.
                if idle(frame):
                    logger.info("the event loop waits for other threads, which run Python, since %.2f s", delay)
                else:
                    self._reported = due
                    logger.warning("the event loop is held, and no call is answered, for %.2f s: %s", delay, told(frame))
            del frame  # it holds what its function does


def idle(frame: FrameType) -> bool:
    """Returns whether a loop's thread waits for something to do: the innermost function is the loop's own."""
    return Path(frame.f_code.co_filename).name in LOOPS_OWN


def told(frame: FrameType) -> str:
    """Names the functions of a stack, the innermost first: "name (file:line) < name (file:line) ..."."""
    found: list[str] = []
    at: FrameType | None = frame
    while at is not None and len(found) < FRAMES:
        place = Path(at.f_code.co_filename)
        found.append(f"{at.f_code.co_qualname} ({place.parent.name}/{place.name}:{at.f_lineno})")
        at = at.f_back
    return " < ".join(found)
