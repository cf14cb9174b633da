"""Formats load curves as tables and for machines."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from benchmarks.lib.report import Table, span
from benchmarks.load.curve import LATENESS_LIMIT_SECONDS, Curve, goals, usable
from benchmarks.load.point import Point

HEADINGS = (
    "load",
    "offered calls/s (texts/s)",
    "answered in time, calls/s (texts/s)",
    "of capacity",
    "refused/s",
    "late/s",
    "p50 ms",
    "p95 ms",
    "p99 ms",
    "refusal p95 ms",
    "clients' shares",
    "server MB",
    "cores: server, Envoy, generator",
)


def table(curve: Curve) -> Table:
    """Returns a row for each load."""
    capacity = curve.capacity
    rates = f"{capacity.rate:.1f} calls/s ({curve.texts * capacity.rate:.0f} texts/s)"
    title = (
        f"{curve.model}, {curve.texts} text{'s' * (curve.texts > 1)} a call: capacity {rates} with {capacity.callers} callers, "
        f"{curve.after:.1f} calls/s afterwards; {curve.plan.clients} clients, deadline {curve.plan.deadline:g} s, "
        f"{curve.plan.seconds:g} s counted at each load; {curve.where}"
    )
    nothing = ["-"] * (len(HEADINGS) - 1)
    rows = [(f"{load:g}", *(_cells(curve, point) if usable(point) else nothing)) for load, point in curve.points.items()]
    return Table(title, HEADINGS, rows)


def faults(curve: Curve) -> list[str]:
    """Returns unexpected results, in words: wrong answers, other errors, rejections without a retry delay."""
    found = []
    for load, point in curve.points.items():
        where = f"{curve.model}, {curve.texts} texts a call, load {load:g}"
        if point.wrong:
            found.append(f"{where}: {point.wrong} wrong answers")
        if point.failed:
            found.append(f"{where}: {point.failed}")
        found += [
            f"{where}: {count} refusals with {reason}" for reason, count in point.refusals.items() if reason.startswith("no ")
        ]
        if point.not_sent:
            found.append(f"{where}: {point.not_sent:.1f} calls/s were never sent, so many were in flight")
    return found


def remarks(curve: Curve) -> list[str]:
    """Returns why loads have no figures, then the goals."""
    limit = LATENESS_LIMIT_SECONDS * 1000
    late = [
        f"load {load:g}: no figures, the generator was {point.lateness * 1000:.0f} ms late (p99), more than {limit:.0f}"
        for load, point in curve.points.items()
        if not usable(point)
    ]
    return late + [
        f"{goal.what}: {goal.ours} / {goal.theirs} = {goal.ratio:.2f} ({span(goal.spread)}); goal: {goal.goal}"
        for goal in goals(curve)
    ]


def for_machines(curve: Curve) -> dict[str, Any]:
    """Returns a curve in JSON types: times in seconds, sizes in bytes, rates in calls per second."""
    points = [{"load": load, "usable": usable(point)} | dataclasses.asdict(point) for load, point in curve.points.items()]
    return dataclasses.asdict(curve) | {"points": points, "goals": [dataclasses.asdict(goal) for goal in goals(curve)]}


def _cells(curve: Curve, point: Point) -> list[str]:
    return [
        f"{point.offered:.1f} ({point.offered * curve.texts:.0f})",
        f"{point.goodput:.1f} ({point.goodput * curve.texts:.0f})",
        f"{point.goodput / curve.capacity.rate:.2f}",
        f"{point.refused:.1f}",
        f"{point.late:.1f}",
        *(_milliseconds(value) for value in point.latency.values()),
        _milliseconds(point.refusal_latency),
        span(point.fairness, 3),
        f"{point.resident_bytes / 1e6:.0f}",
        f"{point.server_cores:.2f}, {point.proxy_cores:.2f}, {point.generator_cores:.2f}",
    ]


def _milliseconds(seconds: float) -> str:
    return "-" if math.isnan(seconds) else f"{seconds * 1000:.1f}"
