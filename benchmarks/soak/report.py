"""Formats a soak as a table, in words, and for machines."""

from __future__ import annotations

import dataclasses
from typing import Any

from benchmarks.lib.report import Report, Table
from benchmarks.soak.run import Outcome, Plan
from benchmarks.soak.samples import SETTLED_SHARE, memory_trend, settled


def report_of(outcome: Outcome, plan: Plan) -> Report:
    """Returns the report of a soak."""
    return Report([table(outcome)], for_machines(outcome, plan), lines(outcome, plan), outcome.tally.faults)


def table(outcome: Outcome) -> Table:
    """Returns a row for each kind of call, a column for each code."""
    counts = outcome.tally.counts
    codes = sorted({code for _, code in counts}, key=lambda code: (code != "OK", code))
    rows = [[kind, *(str(counts[kind, code] or "") for code in codes)] for kind in sorted({kind for kind, _ in counts})]
    rows.append(["all", *(str(sum(counts[kind, each] for kind, each in counts if each == code)) for code in codes)])
    return Table("Calls by how they ended", ("kind", *codes), rows)


def lines(outcome: Outcome, plan: Plan) -> list[str]:
    """Returns the findings in words."""
    tally, samples, found = outcome.tally, outcome.samples, memory_trend(outcome.samples)
    last = settled(samples)
    sizes = [sample.resident_bytes / 1e6 for sample in samples]
    memory = (
        f"server memory: {sizes[0]:.0f} MB at the start, {sizes[-1]:.0f} MB at the end, {max(sizes):.0f} MB at most; slope "
        f"over the last {SETTLED_SHARE:.0%} of {plan.seconds / 60:.3g} minutes: {found.slope:+.1f} MB/hour, standard error "
        f"{found.error:.1f}"
    )
    held = (
        f"at the beginning of that and at the end: {last[0].files} and {last[-1].files} files, "
        f"{last[0].threads} and {last[-1].threads} threads"
    )
    counted = f"{tally.counts.total()} calls; {tally.wrong} wrong answers; {tally.unexpected} ended as nothing explains"
    return [counted, memory, held]


def for_machines(outcome: Outcome, plan: Plan) -> dict[str, Any]:
    """Returns the soak in JSON types: seconds, bytes, MB/hour."""
    counts: dict[str, dict[str, int]] = {}
    for (kind, code), count in sorted(outcome.tally.counts.items()):
        counts.setdefault(kind, {})[code] = count
    return {
        "plan": dataclasses.asdict(plan),
        "counts": counts,
        "wrong": outcome.tally.wrong,
        "unexpected": outcome.tally.unexpected,
        "megabytes_per_hour": dataclasses.asdict(memory_trend(outcome.samples)),
        "samples": [dataclasses.asdict(sample) for sample in outcome.samples],
    }
