"""Holds what a script found, and prints it in one form: tables, remarks, the machine and its kernels, or one JSON document."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich import table as rich
from rich.console import Console

from benchmarks.lib.kernels import kernels
from benchmarks.lib.measure import Claim, machine

WIDTH = 180
"""Columns of what is printed to a file."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of cells as text. The first column stands to the left, and so do others with words."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]

    def drawn(self) -> rich.Table:
        """Returns it for the terminal."""
        made = rich.Table(title=self.title)
        for place, heading in enumerate(self.headings):
            words = place == 0 or any(row[place][:1].isalpha() for row in self.rows)
            made.add_column(heading, justify="left" if words else "right", overflow="fold")
        for row in self.rows:
            made.add_row(*row)
        return made


@dataclass(frozen=True, slots=True)
class Report:
    """The tables of a script, lines below them, what it says to machines, and the faults, with any of which it has failed."""

    tables: Sequence[Table]
    data: Mapping[str, Any]
    remarks: Sequence[str] = ()
    faults: Sequence[str] = ()


def of_claims(claims: Sequence[Claim], rounds: int) -> Report:
    """Returns the report of comparisons."""
    rows = [(one.what, one.ours, one.theirs, f"{one.ratio:.2f}", span(one.spread), one.goal) for one in claims]
    title = f"Medians of {rounds} rounds, both sides in turn in one run; client and server share the machine"
    headings = ("what", "ours", "theirs", "ratio", "spread", "goal")
    return Report([Table(title, headings, rows)], {"claims": [dataclasses.asdict(one) for one in claims]})


def span(ends: Sequence[float], digits: int = 2) -> str:
    """Returns the lowest and the highest of some numbers in words."""
    return f"{min(ends):.{digits}f} to {max(ends):.{digits}f}"


def show(reports: Sequence[Report]) -> None:
    """Prints reports, then the machine and the kernels that its libraries chose."""
    console = Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False, markup=False)
    for report in reports:
        for table in report.tables:
            console.print(table.drawn())
        for line in (*report.remarks, *(f"FAULT {fault}" for fault in report.faults)):
            console.print(line)
    for line in (machine(), *kernels()):
        console.print(line)


def document(reports: Mapping[str, Report]) -> str:
    """Returns the reports of some scripts, by name, as JSON."""
    found = {name: {**report.data, "faults": report.faults} for name, report in reports.items()}
    return json.dumps({"machine": machine(), "kernels": kernels(), "scripts": _plain(found)}, indent=2)


def _plain(value: Any) -> Any:
    """Replaces NaN, which JSON does not have, by None."""
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and math.isnan(value) else value
