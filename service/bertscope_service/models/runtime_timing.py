"""Times the libraries that can run a model in paired rounds, and chooses one."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Mapping, Sequence

from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.engine.engine import Engine
from bertscope_service.engine.lease import Lease
from bertscope_service.models.runtime_choice import PREFERRED, THRESHOLD, RuntimeChoice, RuntimeTimes, decide
from bertscope_service.models.timed_runs import Trial

COPIES = 8
"""Number of texts in the timed batch; a single text is timed too."""

TEXT_RUNS, SHORT_SECONDS = 3, 0.02
"""Runs of the single text in a round, if one is shorter than SHORT_SECONDS."""

CLEAR_ROUNDS = 8
"""Number of rounds that is enough if all of them favour the same library."""

MIN_ROUNDS, MAX_ROUNDS = 6, 25
"""Minimum number of rounds for an interval of 95 %, and maximum."""

MAX_SECONDS = 5.0
"""After this time no round begins beyond the minimum."""

TAIL = 0.025
"""Maximum probability that the median lies below the interval; the same above it."""

Round = Mapping[str, tuple[float, float]]
"""Seconds of one text and of a batch, by runtime."""


async def choose(engine: Engine, encoders: Sequence[Encoder], text: TokenSequence) -> RuntimeChoice:
    """Times two encoders of a model, which have run before, on a text and on a batch of it, and chooses one.

    The device is leased for one round at a time, so that other calls wait for one round at most. Raises Unavailable when the
    server stops.
    """
    device = encoders[0].device
    preferred = PREFERRED[device.type]
    rounds: list[Round] = []
    began = time.monotonic()
    while not settled([speedup(one, preferred) for one in rounds], time.monotonic() - began):
        # The order alternates, because the second one profits from warm caches and raised clocks.
        order = encoders if len(rounds) % 2 else encoders[::-1]
        async with engine.lease(device, refuse=False) as lease:
            rounds.append({encoder.runtime: await _timed(encoder, lease, text) for encoder in order})
    speedups = [speedup(one, preferred) for one in rounds]
    low, high = interval_of_median(speedups)
    times = tuple(
        RuntimeTimes(encoder.runtime, *(statistics.median(one[encoder.runtime][load] for one in rounds) for load in range(2)))
        for encoder in encoders
    )
    return RuntimeChoice(
        decide(preferred, low), preferred, THRESHOLD, times, statistics.median(speedups), low, high, len(rounds), time.time()
    )


async def _timed(encoder: Encoder, lease: Lease, text: TokenSequence) -> tuple[float, float]:
    """Returns the seconds of one text and of a batch.

    The first run of each counts only if it is long, because the caches hold the other library's weights.
    """
    trial, batch = Trial(encoder, lease), [text] * COPIES
    (one,), (many,) = await trial.times([[text]]), await trial.times([batch])
    if one < SHORT_SECONDS:
        one = statistics.median(await trial.times([[text]] * TEXT_RUNS))
    if many < SHORT_SECONDS:
        (many,) = await trial.times([batch])
    return one, many


def speedup(one: Round, preferred: str) -> float:
    """Returns the other library's speed in a round relative to the preferred one: the geometric mean over both loads."""
    (other,) = one.keys() - {preferred}
    return math.sqrt(math.prod(mine / theirs for mine, theirs in zip(one[preferred], one[other], strict=True)))


def settled(speedups: Sequence[float], seconds: float) -> bool:
    """Checks whether these rounds, which took `seconds`, are enough."""
    if len(speedups) < MIN_ROUNDS:
        return False
    above = sum(value > THRESHOLD for value in speedups)
    clear = above in (0, len(speedups))
    return len(speedups) >= MAX_ROUNDS or seconds >= MAX_SECONDS or (clear and len(speedups) >= CLEAR_ROUNDS)


def interval_of_median(values: Sequence[float]) -> tuple[float, float]:
    """Returns an interval that holds the true median in at least 95 % of all cases, for any distribution, of at least
    MIN_ROUNDS values.

    A few disturbed values don't move it. Its ends are values, equally far from the lowest and the highest: the number of n
    values below the median is binomial (n, 1/2).
    """
    ordered, count, chance, rank = sorted(values), len(values), 0.0, 0
    while (chance := chance + math.comb(count, rank) / 2**count) <= TAIL:
        rank += 1
    if not rank:
        raise ValueError(f"{count} values are too few for an interval")
    return ordered[rank - 1], ordered[count - rank]
