"""Runs callers of several servers in turn, and compares them with the first one, round by round."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.lib.calls import Answers, percentiles
from benchmarks.lib.report import Report, Table, span

PERCENTILES = (50, 95, 99)


@dataclass(frozen=True, slots=True)
class Row:
    """A question with so many texts in a call, and the answers of each side, round by round."""

    what: str
    texts: int
    found: dict[str, list[Answers]]

    def rates(self, side: str) -> list[float]:
        """Returns the texts a second of a side in each round."""
        return [self.texts * answers.rate for answers in self.found[side]]

    def costs(self, side: str) -> list[float]:
        """Returns the servers' CPU milliseconds for a call in each round; 0 where they are not measured."""
        return [1000 * answers.cpu_per_call for answers in self.found[side]]

    def as_json(self) -> dict[str, Any]:
        """Returns the figures of all sides, round by round."""
        sides = {
            side: {
                "texts_per_second": self.rates(side),
                "cpu_ms_per_call": self.costs(side),
                "p50_p95_p99_ms": percentiles(answers, *PERCENTILES),
            }
            for side, answers in self.found.items()
        }
        return {"what": self.what, "texts": self.texts, "sides": sides}


def take_turns(what: str, texts: int, sides: Mapping[str, Callable[[], Answers]], rounds: int) -> Row:
    """Asks all sides in each round, one after the other."""
    found: dict[str, list[Answers]] = {side: [] for side in sides}
    for _ in range(rounds):
        for side, ask in sides.items():
            found[side].append(ask())
    row = Row(what, texts, found)
    said = ", ".join(f"{side} {median(row.rates(side)):.0f} texts/s" for side in sides)
    print(f"{what}: {said}", file=sys.stderr)
    return row


def compared(title: str, rows: Sequence[Row], remarks: Sequence[str] = ()) -> Report:
    """Returns a line for each side of each row: medians over the rounds, and ratios to the first side with their spread."""
    headings = ("what", "side", "texts/s", *(f"p{share} ms" for share in PERCENTILES), "server CPU ms/call")
    headings += ("rate / the first side's", "CPU / the first side's")
    lines = [line for row in rows for line in _lines(row)]
    whole = f"{title}; medians, each side in turn in one run; callers and servers share the machine"
    return Report([Table(whole, headings, lines)], {"rows": [row.as_json() for row in rows]}, remarks)


def _lines(row: Row) -> list[list[str]]:
    lines = []
    first = next(iter(row.found))
    for side, answers in row.found.items():
        times = [f"{value:.3g}" for value in percentiles(answers, *PERCENTILES)]
        costs = median(row.costs(side))
        cells = [row.what, side, f"{median(row.rates(side)):,.1f}", *times, f"{costs:.3f}" if costs else ""]
        pairs = ((row.rates(side), row.rates(first)), (row.costs(side), row.costs(first)))
        lines.append([*cells, *("" if side == first else _ratio(ours, theirs) for ours, theirs in pairs)])
    return lines


def _ratio(ours: Sequence[float], theirs: Sequence[float]) -> str:
    if not all(theirs):
        return ""
    ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
    return f"{median(ratios):.2f} ({span(ratios)})"
