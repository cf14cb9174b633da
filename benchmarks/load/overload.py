"""Measures goodput and memory at ten times capacity, in turn with capacity itself; the script `load` measures the curve."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator

from bertscope_service.embedded import EMBEDDED_FOLDER

from benchmarks.lib.measure import Claim, mebibytes, share
from benchmarks.lib.options import ROUNDS
from benchmarks.load.curve import LATENESS_LIMIT_SECONDS, Plan, closed, find_capacity, offer, usable
from benchmarks.load.served import served
from benchmarks.load.workload import cloze_workloads

OPTIONS = (ROUNDS,)
TEXTS = 8
"""Texts in a call."""

LOAD = 10


def claims(options: Namespace) -> Iterator[Claim]:
    """Measures, in each round, callers who never pause, then ten times as many calls as they had answered."""
    plan = Plan(seconds=2.0, deadline=1.0)
    (workload,) = cloze_workloads("bertscope-mini", EMBEDDED_FOLDER, [TEXTS])
    with served(pin=True, envoy=False) as load:
        capacity = find_capacity(load, workload, plan)
        rates, goodputs, sizes, before = [], [], [], load.server.resident_bytes()
        for _ in range(options.rounds):
            rates.append(closed(load, workload, plan, capacity.callers))
            point = offer(load, workload, plan, LOAD * rates[-1])
            if not usable(point):
                limit = LATENESS_LIMIT_SECONDS * 1000
                print(f"no figures: the generator was {point.lateness * 1000:.0f} ms late, limit {limit:.0f}", file=sys.stderr)
                return
            assert (point.wrong, point.failed) == (0, {})
            goodputs.append(point.goodput)
            sizes.append(point.peak_bytes)
    what = f"goodput at {LOAD} times capacity / capacity, bertscope-mini, {TEXTS} texts a call"
    yield share(what, goodputs, rates, lambda calls: f"{TEXTS * calls:.0f} texts/s", "at least 0.9")
    what = f"server memory, peak at {LOAD} times capacity / before"
    yield share(what, sizes, [before] * len(sizes), mebibytes, "no growth")
