"""Samples the server's memory, files and threads while it is used, and estimates whether they grow."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import psutil
from scipy import stats

SETTLED_SHARE = 0.75
"""The last part of the time, in which memory should no longer grow: before, pools fill and kernels are made."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample at `seconds` from the start."""

    seconds: float
    resident_bytes: int
    files: int
    threads: int


@dataclass(frozen=True, slots=True)
class Trend:
    """A straight line through samples, by least squares: its slope per hour and the standard error of that.

    Consecutive samples are correlated, so the true error is larger.
    """

    slope: float
    error: float


async def keep_sampling(process: psutil.Process, samples: list[Sample], *, end: float, every: float) -> None:
    """Adds a sample every `every` seconds until `end`, a loop time, and one at the end."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while True:
        with process.oneshot():
            sample = Sample(loop.time() - began, process.memory_info().rss, process.num_fds(), process.num_threads())
        samples.append(sample)
        if loop.time() >= end:
            return
        await asyncio.sleep(min(every, end - loop.time()))


def settled(samples: Sequence[Sample]) -> list[Sample]:
    """Returns the samples of the last SETTLED_SHARE of the time."""
    begin = samples[-1].seconds * (1 - SETTLED_SHARE)
    return [sample for sample in samples if sample.seconds >= begin]


def trend(seconds: Sequence[float], values: Sequence[float]) -> Trend:
    """Returns the line through values at some times; NaN from fewer than three."""
    if len(values) < 3:
        return Trend(float("nan"), float("nan"))
    line = stats.linregress(np.array(seconds) / 3600, np.array(values))
    return Trend(float(line.slope), float(line.stderr))


def memory_trend(samples: Sequence[Sample]) -> Trend:
    """Returns megabytes per hour, once settled."""
    chosen = settled(samples)
    return trend([sample.seconds for sample in chosen], [sample.resident_bytes / 1e6 for sample in chosen])
