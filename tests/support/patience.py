"""How long tests wait before they fail. Limits are written in seconds of an idle machine, and are longer on slower and busier
ones. A wait in vain says what was there instead."""

import inspect
import os
import reprlib
import time
from collections.abc import Callable
from functools import cache

LOOPS = 100_000
LOOP_SECONDS = 0.003
"""How long an idle machine takes for as many additions."""


@cache
def slowness() -> float:
    """How many times longer than there a loop takes here, at least 1; the shortest of some, which a moment's load spares."""

    def taken() -> float:
        begin = time.perf_counter()
        sum(number for number in range(LOOPS))
        return time.perf_counter() - begin

    return max(1.0, min(taken() for _ in range(5)) / LOOP_SECONDS)


def granted(idle: float) -> float:
    """The time that is granted now for what takes up to so many seconds on an idle machine."""
    return idle * slowness() * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def wait_until(condition: Callable[[], object], what: str, idle: float = 60.0) -> None:
    """Comes back as soon as the condition holds; fails if it does not in the time granted for so many idle seconds."""
    allowed = granted(idle)
    limit = time.monotonic() + allowed
    while not condition():
        assert time.monotonic() < limit, f"waited {allowed:.0f} s in vain until {what}: {seen(condition)}"
        time.sleep(0.002)


def seen(condition: Callable[[], object]) -> str:
    """What the variables are now that a function takes from around it."""
    if not inspect.isfunction(condition):
        return repr(condition)
    return "; ".join(f"{name} is {reprlib.repr(value)}" for name, value in inspect.getclosurevars(condition).nonlocals.items())
