"""Formats the comparison as tables, or as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from benchmarks.peers.compare import Compared


class Row:
    """A line of the table, from the readings of a cell. `titles` are those of the servers, ours first."""

    def __init__(self, shape: str, titles: Sequence[str], compared: Compared) -> None:
        self._shape, self._compared = shape, compared
        self.titles = titles

    def cells(self) -> list[str]:
        """Returns rates with percentiles of a call, then ratios with their spread; servers that did not run have none."""
        compared, titles = self._compared, self.titles
        cell = compared.cell
        texts = "1 text" if cell.texts == 1 else f"{cell.texts} texts"
        callers = "1 caller" if cell.callers == 1 else f"{cell.callers} callers"
        what = f"{self._shape}, {cell.length} tokens, {callers}, {texts} a call"
        rates, ratios = map(self._rate, titles), map(self._ratio, titles[1:])
        if self.has_bare:
            return [what, *rates, self._alone(), *ratios, self._share()]
        return [what, *rates, *ratios]

    def headings(self) -> list[str]:
        """Returns the headings of the cells."""
        ours, bare = self.titles[0], ["in-process"] * self.has_bare
        return ["what", *self.titles, *bare, *(f"{ours} / {title}" for title in [*self.titles[1:], *bare])]

    def added(self) -> list[str]:
        """Returns the time of a call beyond the bare run, for a cell with one caller and one text."""
        compared = self._compared
        what = f"{self._shape}, {compared.cell.length} tokens: a call adds"
        return [what, *(_interval(self._adds(title), "{:.2f}", " ms") for title in self.titles)]

    def as_json(self) -> dict[str, Any]:
        compared = self._compared
        return {
            "shape": self._shape,
            **asdict(compared.cell),
            "readings": {title: [asdict(reading) for reading in found] for title, found in compared.readings.items()},
            "bare": compared.bare,
            "ratios": {title: self._ratios(title) for title in self.titles[1:]},
        }

    @property
    def is_single(self) -> bool:
        return self._compared.cell.callers == self._compared.cell.texts == 1

    @property
    def has_bare(self) -> bool:
        return bool(self._compared.bare)

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
        ours, theirs = (self._compared.readings.get(name, []) for name in (self.titles[0], title))
        return [one.rate / other.rate for one, other in zip(ours, theirs, strict=False)]

    def _ratio(self, title: str) -> str:
        return _interval(self._ratios(title), "{:.2f}", "")

    def _share(self) -> str:
        compared = self._compared
        if compared.cell.texts == 1:
            return ""
        ours = compared.readings[self.titles[0]]
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


def table(rows: Sequence[Row], caption: str) -> Table:
    """Returns the rows of one job, then the overhead of a call where the bare run is known."""
    made = Table(title="Texts per second, and p50 / p95 of a call; medians, each server in turn", caption=caption)
    for number, heading in enumerate(rows[0].headings()):
        made.add_column(heading, justify="right" if number else "left", overflow="fold")
    for row in rows:
        made.add_row(*row.cells())
    for row in rows:
        if row.is_single and row.has_bare:
            made.add_row(*row.added())
    return made
