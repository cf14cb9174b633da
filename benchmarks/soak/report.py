"""Formats a soak as tables, for machines, and as a picture."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
from bertscope_workbench.plots.figures import new_figure, require_format, write
from bertscope_workbench.plots.theme import INK
from rich.table import Table

from benchmarks.soak.run import Outcome, Plan
from benchmarks.soak.samples import SETTLED_SHARE, memory_trend, settled


def table(outcome: Outcome) -> Table:
    """Returns a row for each kind of call, a column for each code."""
    counts = outcome.tally.counts
    codes = sorted({code for _, code in counts}, key=lambda code: (code != "OK", code))
    drawn = Table(title="Calls by how they ended")
    drawn.add_column("kind")
    for code in codes:
        drawn.add_column(code, justify="right")
    for kind in sorted({kind for kind, _ in counts}):
        drawn.add_row(kind, *(str(counts[kind, code] or "") for code in codes))
    drawn.add_section()
    drawn.add_row("all", *(str(sum(counts[kind, each] for kind, each in counts if each == code)) for code in codes))
    return drawn


def lines(outcome: Outcome, plan: Plan) -> list[str]:
    """Returns the findings in words, then the faults."""
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
    return [counted, memory, held, *(f"FAULT {fault}" for fault in tally.faults)]


def for_machines(outcome: Outcome, plan: Plan) -> dict[str, Any]:
    """Returns the soak in JSON types: seconds, bytes, MB/hour."""
    counts: dict[str, dict[str, int]] = {}
    for (kind, code), count in sorted(outcome.tally.counts.items()):
        counts.setdefault(kind, {})[code] = count
    found = memory_trend(outcome.samples)
    slope = {name: None if math.isnan(value) else value for name, value in dataclasses.asdict(found).items()}
    return {
        "plan": dataclasses.asdict(plan),
        "counts": counts,
        "wrong": outcome.tally.wrong,
        "unexpected": outcome.tally.unexpected,
        "faults": outcome.tally.faults,
        "megabytes_per_hour": slope,
        "samples": [dataclasses.asdict(sample) for sample in outcome.samples],
    }


def save_memory(outcome: Outcome, path: Path) -> None:
    """Draws memory over time with its trend, as .png, .svg or .pdf. Raises ValueError for any other suffix."""
    require_format(path)
    figure = new_figure(7.0, 3.6)
    axes = figure.subplots()
    samples, found, last = outcome.samples, memory_trend(outcome.samples), settled(outcome.samples)
    minutes = [sample.seconds / 60 for sample in samples]
    axes.plot(minutes, [sample.resident_bytes / 1e6 for sample in samples], color="#2371b0", linewidth=1.2, label="server")
    middle = np.mean([sample.seconds for sample in last]), np.mean([sample.resident_bytes / 1e6 for sample in last])
    ends = np.array([last[0].seconds, last[-1].seconds])
    line = middle[1] + found.slope * (ends - middle[0]) / 3600
    label = f"{found.slope:+.1f} MB/hour (standard error {found.error:.1f})"
    axes.plot(ends / 60, line, color="#d1571c", linestyle="--", linewidth=1.2, label=label)
    axes.set_ylim(0, 1.15 * max(sample.resident_bytes for sample in samples) / 1e6)
    axes.set_xlabel("minutes")
    axes.set_ylabel("resident memory, MB")
    axes.grid()
    axes.legend(fontsize=8, frameon=False, labelcolor=INK, loc="lower right")
    axes.spines[["top", "right"]].set_visible(False)
    figure.set_heading("Server memory during the soak")
    write(figure, path)
