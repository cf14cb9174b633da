"""Gives the processes of a benchmark cores of their own."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator, Sequence

CALLERS_SHARE = 4
"""Callers, and a proxy, have one in so many cores, and at least one."""


def available() -> list[int]:
    """Returns the cores that this thread may use; none if the system can't pin processes."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def split(cores: Sequence[int]) -> tuple[list[int], list[int]]:
    """Returns the server's cores and those of the callers. Fewer than two can't be divided: both sides get none."""
    if len(cores) < 2:
        return [], []
    callers = max(1, len(cores) // CALLERS_SHARE)
    return list(cores[:-callers]), list(cores[-callers:])


@contextlib.contextmanager
def on_cores(cores: Collection[int]) -> Iterator[None]:
    """Pins this thread, and the processes that it starts meanwhile, to some cores; none: wherever they may run now."""
    if not cores:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
