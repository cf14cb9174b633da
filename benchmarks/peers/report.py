"""Formats the comparison as one table, or as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from benchmarks.peers.compare import Compared

OURS = "ours"


class Row:
    """A line of the table, from the readings of a cell."""

    def __init__(self, shape: str, compared: Compared) -> None:
        self._shape, self._compared = shape, compared

    def cells(self, titles: Sequence[str]) -> list[str]:
        """Returns rates with percentiles of a call, then ratios with their spread; servers that did not run have none."""
        compared = self._compared
        cell = compared.cell
        texts = "1 text" if cell.texts == 1 else f"{cell.texts} texts"
        callers = "1 caller" if cell.callers == 1 else f"{cell.callers} callers"
        what = f"{self._shape}, {cell.length} tokens, {callers}, {texts} a call"
        return [what, *map(self._rate, titles), self._alone(), *map(self._ratio, titles[1:]), self._share()]

    def added(self, titles: Sequence[str]) -> list[str]:
        """Returns the time of a call beyond the bare run, for a cell with one caller and one text."""
        compared = self._compared
        what = f"{self._shape}, {compared.cell.length} tokens: a call adds"
        return [what, *(_interval(self._adds(title), "{:.2f}", " ms") for title in titles)]

    def as_json(self, titles: Sequence[str]) -> dict[str, Any]:
        compared = self._compared
        return {
            "shape": self._shape,
            **asdict(compared.cell),
            "readings": {title: [asdict(reading) for reading in found] for title, found in compared.readings.items()},
            "bare": compared.bare,
            "ratios": {title: self._ratios(title) for title in titles[1:]},
        }

    @property
    def is_single(self) -> bool:
        return self._compared.cell.callers == self._compared.cell.texts == 1

    def _rate(self, title: str) -> str:
        found = self._compared.readings.get(title)
        if not found:
            return "-"
        rate, p50, p95 = (statistics.median(values) for values in zip(*((r.rate, r.p50, r.p95) for r in found), strict=True))
        return f"{rate:.{0 if rate >= 100 else 1}f}/s, {p50:.3g} / {p95:.3g} ms"

    def _alone(self) -> str:
        middle = statistics.median(self._compared.bare)
        return f"{middle:.2f} ms" if self._compared.cell.texts == 1 else f"{middle:.{0 if middle >= 100 else 1}f}/s"

    def _ratios(self, title: str) -> list[float]:
        ours, theirs = (self._compared.readings.get(name, []) for name in (OURS, title))
        return [one.rate / other.rate for one, other in zip(ours, theirs, strict=False)]

    def _ratio(self, title: str) -> str:
        return _interval(self._ratios(title), "{:.2f}", "")

    def _share(self) -> str:
        compared = self._compared
        if compared.cell.texts == 1:
            return ""
        ours = compared.readings[OURS]
        return _interval([one.rate / alone for one, alone in zip(ours, compared.bare, strict=True)], "{:.2f}", "")

    def _adds(self, title: str) -> list[float]:
        found = self._compared.readings.get(title, [])
        return [one.p50 - alone for one, alone in zip(found, self._compared.bare, strict=False)]


def _interval(values: Sequence[float], form: str, unit: str) -> str:
    """Returns the median and the spread."""
    if not values:
        return "-"
    middle, low, high = (form.format(value) for value in (statistics.median(values), min(values), max(values)))
    return f"{middle}{unit} ({low} to {high})"


def table(rows: Sequence[Row], titles: Sequence[str], caption: str) -> Table:
    """Returns all rows, then the overhead of a call."""
    made = Table(title="Texts per second, and p50 / p95 of a call; medians, each server in turn", caption=caption)
    made.add_column("what", overflow="fold")
    ratios = [*(f"{titles[0]} / {title}" for title in titles[1:]), f"{titles[0]} / in-process"]
    for heading in (*titles, "in-process", *ratios):
        made.add_column(heading, justify="right", overflow="fold")
    for row in rows:
        made.add_row(*row.cells(titles))
    for row in rows:
        if row.is_single:
            made.add_row(*row.added(titles))
    return made
