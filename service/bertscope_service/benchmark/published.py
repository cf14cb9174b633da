"""The published figures: Table 1 of Rogers, Kovaleva, Rumshisky 2020, "A Primer in BERTology", which took them from the
papers.

published.csv holds them in the table's order, as printed: some are ranges, some were never published.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Published:
    """One row of the table; see bertscope.v1.Published. Fields without a published figure are empty."""

    system: str
    technique: str
    compression: str
    performance: str
    speedup: str
    relative_to: str
    evaluated_on: str

    @property
    def name(self) -> str:
        """The system without its paper, which stands in parentheses: "DistilBERT" of "DistilBERT (Sanh 2019a)"."""
        return self.system.partition(" (")[0]


@cache
def published_figures() -> tuple[Published, ...]:
    """Reads all rows, in the table's order."""
    text = files(__package__).joinpath("published.csv").read_text(encoding="utf-8")
    return tuple(Published(**row) for row in csv.DictReader(text.splitlines()))
