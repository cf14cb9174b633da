"""Measures goodput and memory at ten times capacity, in turn with capacity itself; `python -m benchmarks load` draws the
curve."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from statistics import median

from bertscope_service.embedded import EMBEDDED_FOLDER

from benchmarks.lib.measure import Claim
from benchmarks.load.curve import LATENESS_LIMIT_SECONDS, Plan, closed, find_capacity, offer, usable
from benchmarks.load.served import served
from benchmarks.load.workload import cloze_workloads

TEXTS = 8
"""Texts in a call."""

LOAD = 10


def claims(rounds: int) -> Iterator[Claim]:
    """Measures, in each round, callers who never pause, then ten times as many calls as they had answered."""
    plan = Plan(seconds=2.0, deadline=1.0)
    (workload,) = cloze_workloads("bertscope-mini", EMBEDDED_FOLDER, [TEXTS])
    with served(pin=True, envoy=False) as load:
        capacity = find_capacity(load, workload, plan)
        rates, points, sizes = [], [], [load.server.resident_bytes()]
        for _ in range(rounds):
            rates.append(closed(load, workload, plan, capacity.callers))
            point = offer(load, workload, plan, LOAD * rates[-1])
            if not usable(point):
                limit = LATENESS_LIMIT_SECONDS * 1000
                print(f"no figures: the generator was {point.lateness * 1000:.0f} ms late, limit {limit:.0f}", file=sys.stderr)
                return
            assert (point.wrong, point.failed) == (0, {})
            points.append(point)
            sizes.append(point.peak_bytes)
    ratios = [point.goodput / rate for point, rate in zip(points, rates, strict=True)]
    ours, theirs = (f"{TEXTS * median(side):.0f} texts/s" for side in ([point.goodput for point in points], rates))
    what = f"goodput at {LOAD} times capacity / capacity, bertscope-mini, {TEXTS} texts a call"
    yield Claim(what, ours, theirs, median(ratios), (min(ratios), max(ratios)), "at least 0.9")
    grown = [size / sizes[0] for size in sizes[1:]]
    what = f"server memory, peak at {LOAD} times capacity / before"
    yield Claim(what, f"{sizes[-1] / 1e6:.0f} MB", f"{sizes[0] / 1e6:.0f} MB", grown[-1], (min(grown), max(grown)), "no growth")
