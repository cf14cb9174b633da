"""Finds callbacks that hold an event loop: what a request makes the loop compute delays all other calls.

Seconds are those that the loop's own thread computes, so that a busy machine changes nothing, without garbage collections: a
test's process has far more objects than a server's. A callback that waits, in place of computing, stays at one instruction.
"""

import asyncio
import gc
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bertscope_service.observability.loop_monitor import idle, told

from tests.support.patience import slowness

LIMIT_SECONDS = 0.05
"""A callback may compute as long, on the machine that `slowness` compares with."""

BEAT_SECONDS = 0.005
LOOK_SECONDS = 0.01
WAITING_LOOKS = 20
"""A callback waits that is seen so often in turn at one instruction, while its thread hardly computes."""


class HeldLoop:
    """Watches a loop; `holds` are the callbacks that held it too long: seconds, and the innermost functions."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._limit = LIMIT_SECONDS * slowness()
        self._ended = threading.Event()
        self._clock = 0
        self._thread = 0
        self._beats = 0
        self._collecting = self._collected = 0.0
        self._computed = 0.0
        self._stack = ""
        self._alone = 0.0
        self.holds: list[tuple[float, str]] = []

    def begin(self) -> None:
        """On the loop."""
        self._thread = threading.get_ident()
        self._clock = time.pthread_getcpuclockid(self._thread)
        self._computed = time.thread_time()
        self._looking = threading.Thread(target=self._look, name="held-loop", daemon=True)
        self._looking.start()
        gc.callbacks.append(self._collect)
        self._beat()

    def end(self) -> None:
        """In any other thread."""
        self._ended.set()
        self._looking.join()
        gc.callbacks.remove(self._collect)

    def _collect(self, phase: str, _: object) -> None:
        """Counts the seconds of garbage collections on the loop's thread."""
        if threading.get_ident() == self._thread:
            if phase == "start":
                self._collecting = time.thread_time()
            else:
                self._collected += time.thread_time() - self._collecting

    def _beat(self) -> None:
        """Runs between callbacks: what the thread computed since the last time is some callbacks', usually one's."""
        computed = time.thread_time()
        seconds, stack, alone = computed - self._computed - self._collected, self._stack, self._alone
        self._computed, self._stack, self._collected, self._alone = computed, "", 0.0, 0.0
        self._beats += 1
        # Many tasks that each compute a little, one after another, hold nothing.
        if seconds > self._limit and (alone > self._limit / 2 or not stack):
            self.holds.append((seconds, stack or "native code that never let the interpreter go"))
        if not self._ended.is_set():
            self._loop.call_later(BEAT_SECONDS, self._beat)

    def _look(self) -> None:
        beat, same, place, before = -1, 0, (0, 0), 0.0
        turn: tuple[int, object] = (-1, None)
        since = 0.0
        while not self._ended.wait(LOOK_SECONDS):
            if self._beats != beat:  # it goes round: no need to look at its stack
                beat, same = self._beats, 0
                continue
            frame = sys._current_frames().get(self._thread)
            computed = time.clock_gettime(self._clock)
            if frame is None or idle(frame):
                continue
            now = (id(frame), frame.f_lasti)
            stays = now == place and computed - before < LOOK_SECONDS / 10
            same = same + 1 if stays else 0
            if same == WAITING_LOOKS:
                self.holds.append((same * LOOK_SECONDS, f"waits in {told(frame)}"))
            if turn != (self._beats, task := asyncio.current_task(self._loop)):
                turn, since = (self._beats, task), computed
            self._alone = max(self._alone, computed - since)
            if computed - self._computed > self._limit / 2:
                self._stack = told(frame)
            place, before = now, computed
            del frame


@contextmanager
def watched(loop: asyncio.AbstractEventLoop) -> Iterator[HeldLoop]:
    """Watches a loop that runs in another thread."""
    found = HeldLoop(loop)
    loop.call_soon_threadsafe(found.begin)
    try:
        yield found
    finally:
        found.end()
