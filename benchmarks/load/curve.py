"""Measures goodput and latency against offered load, as multiples of a capacity that is measured in the same run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.lib.calls import FILL_MASK
from benchmarks.lib.measure import Claim
from benchmarks.load.point import Point, completed, summarise
from benchmarks.load.served import Served
from benchmarks.load.traffic import ClosedLoop, OpenLoop, generate, poisson
from benchmarks.load.workload import Workload

LOADS = (0.2, 0.5, 0.8, 0.95, 1.0, 1.5, 2.0, 5.0, 10.0)
CALLERS = (8, 32, 128)
"""Concurrencies, the best of which gives the capacity, as in MLPerf's "offline" scenario."""

PATIENCE_SECONDS = 30.0
"""Deadline of a call in a closed loop."""

MOST_IN_FLIGHT = 4096
LATENESS_LIMIT_SECONDS = 0.05
"""A generator that is later at the 99th percentile did not offer the planned load: its figures are dropped."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a measurement: `seconds` are counted at each load, after a lead-in as long as the deadline and before the
    same again."""

    loads: tuple[float, ...] = LOADS
    callers: tuple[int, ...] = CALLERS
    seconds: float = 10.0
    deadline: float = 2.0
    clients: int = 4
    seed: int = 5


@dataclass(frozen=True, slots=True)
class Capacity:
    """Calls answered rightly per second, with `callers` callers who never pause."""

    rate: float
    callers: int


@dataclass(frozen=True, slots=True)
class Curve:
    """One workload on one server. `after` is the capacity measured again at the end: the machine may have drifted. `where`
    says on which cores everything ran."""

    model: str
    texts: int
    plan: Plan
    capacity: Capacity
    after: float
    points: dict[float, Point]
    where: str


def measure_curve(served: Served, workload: Workload, plan: Plan) -> Curve:
    """Measures capacity, every load in order, and capacity again."""
    who = f"{workload.model}, {workload.texts} a call"
    capacity = find_capacity(served, workload, plan)
    print(f"{who}: capacity {capacity.rate:.1f} calls/s with {capacity.callers} callers", file=sys.stderr)
    points = {}
    for load in plan.loads:
        points[load] = offer(served, workload, plan, load * capacity.rate)
        print(f"{who}: {load:g} times that: {points[load].goodput:.1f} calls/s answered in time", file=sys.stderr)
    after = closed(served, workload, plan, capacity.callers)
    return Curve(workload.model, workload.texts, plan, capacity, after, points, served.where)


def find_capacity(served: Served, workload: Workload, plan: Plan) -> Capacity:
    """Returns the best of some concurrencies."""
    found = [Capacity(closed(served, workload, plan, callers), callers) for callers in plan.callers]
    return max(found, key=lambda capacity: capacity.rate)


def closed(served: Served, workload: Workload, plan: Plan, callers: int) -> float:
    """Returns the calls per second that this many callers have answered rightly, one after the other: the server's own, without
    a proxy."""
    traffic = ClosedLoop(
        target=served.server.target,
        server=served.server.process.pid,
        proxy=None,
        method=FILL_MASK,
        requests=workload.requests,
        clients=min(plan.clients, callers),
        begin=min(1.0, plan.seconds),
        end=min(1.0, plan.seconds) + plan.seconds,
        callers=callers,
        deadline=PATIENCE_SECONDS,
    )
    return completed(generate(traffic), traffic, workload.check)


def offer(served: Served, workload: Workload, plan: Plan, rate: float) -> Point:
    """Offers `rate` calls a second that arrive by a Poisson process, and returns their outcomes."""
    begin, end = plan.deadline, plan.deadline + plan.seconds
    draw = np.random.default_rng(plan.seed)
    traffic = OpenLoop(
        target=served.target,
        server=served.server.process.pid,
        proxy=served.proxy,
        method=FILL_MASK,
        requests=workload.requests,
        clients=plan.clients,
        begin=begin,
        end=end,
        # It continues until the last counted call is answered, so that this call meets the same load as the others.
        arrivals=poisson(rate, end + plan.deadline, plan.clients, len(workload.requests), draw),
        deadline=plan.deadline,
        most_in_flight=MOST_IN_FLIGHT,
    )
    return summarise(generate(traffic), traffic, plan.deadline, workload.check)


def usable(point: Point) -> bool:
    """Returns whether the generator offered the planned load."""
    return point.lateness <= LATENESS_LIMIT_SECONDS


def goals(curve: Curve) -> Iterator[Claim]:
    """Yields goodput and memory at the highest load. Capacity is the mean of before and after; the spread is that against
    each."""
    highest, lowest = max(curve.points), min(curve.points)
    point, quiet = curve.points[highest], curve.points[lowest]
    if not usable(point):
        return
    who = f"{curve.model}, {curve.texts} text{'s' * (curve.texts > 1)} a call"
    before, after = curve.capacity.rate, curve.after
    ratios = sorted(point.goodput / capacity for capacity in (before, after))
    rates = f"{point.goodput:.1f} calls/s", f"{(before + after) / 2:.1f} calls/s"
    what = f"goodput at {highest:g} times capacity / capacity, {who}"
    yield Claim(what, *rates, 2 * point.goodput / (before + after), (ratios[0], ratios[1]), "at least 0.9")
    grown = point.peak_bytes / quiet.resident_bytes
    sizes = f"{point.peak_bytes / 1e6:.0f} MB", f"{quiet.resident_bytes / 1e6:.0f} MB"
    what = f"server memory, peak at {highest:g} times capacity / at {lowest:g} times, {who}"
    yield Claim(what, *sizes, grown, (grown, grown), "no growth")
