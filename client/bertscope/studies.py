"""What `benchmark_studies` gives back: published compressed models, as published and as measured on the server's machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bertscope import _benchmark_rows, _tables
from bertscope._streams import AsyncReading, Reading
from bertscope.benchmark import Disturbances, Machine, ModelReport

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Published:
    """What was published of a system, relative to `relative_to`: Table 1 of Rogers et al. 2020, "A Primer in BERTology"."""

    system: str
    """The system, with its paper: "DistilBERT (Sanh 2019a)"."""
    technique: str
    """"distillation", "quantization", "pruning" and so on."""
    compression: str
    """Size of the original / its size, as published; may be a range ("1.4-2.5"). Empty if none was."""
    performance: str
    """Performance kept, percent of the original's; as published."""
    speedup: str
    """Speed / speed of the original; as published."""
    relative_to: str
    """The original."""
    evaluated_on: str
    """The tasks it was evaluated on."""


@dataclass(frozen=True)
class StudyRow:
    """One system: as published, and as measured."""

    published: Published
    """As published."""
    not_measured: str
    """Why it can't be measured; empty if it was."""
    built: str
    """What was built, in words: "bert, 6 layers x 768, 12 heads"."""
    measured: ModelReport | None
    """What was measured of it, against `baseline`; None if it was not."""
    baseline: str
    """What it was measured against: "BERT-base", "BERT-large" or "mBERT"."""
    baseline_measured: ModelReport | None
    """What was measured of that, in alternation with it."""


@dataclass(frozen=True)
class StudiesSummary:
    """The end of a benchmark of studies."""

    machine: Machine
    """The machine."""
    disturbances: Disturbances
    """Who else wanted the device."""
    seconds: float
    """How long it took."""


@dataclass(frozen=True, repr=False)
class StudyTable:
    """All systems of one call."""

    studies: tuple[StudyRow, ...]
    """In the order of the reply."""
    summary: StudiesSummary
    """The machine, and what disturbed it."""

    def __repr__(self) -> str:
        measured = sum(study.measured is not None for study in self.studies)
        where = f"; {self.summary.machine.cpu}" if self.summary.machine.cpu else ""
        return f"<StudyTable: {len(self.studies)} systems, {measured} measured{where}>"

    @property
    def lengths(self) -> tuple[int, ...]:
        """The lengths that were measured; 0 for given texts."""
        measured = [study.measured for study in self.studies if study.measured]
        return tuple(dict.fromkeys(speed.length for model in measured for speed in model.speeds))

    def rows(self) -> list[Mapping[str, Any]]:
        """A row for each system and length; a single one for a system that was not measured."""
        return _benchmark_rows.study_rows(self)

    def to_pandas(self) -> pd.DataFrame:
        """A row for each system and length: what was published ("published_..."), why it was not measured, what was
        built, and the columns of `BenchmarkReport.to_pandas` for size and speed. Needs the extra "pandas"."""
        return _tables.rows(self.rows())


class StudyBenchmark(Reading[StudyRow, StudyTable]):
    """A benchmark of studies that runs: gives a `StudyRow` at a time, or all of them as a `table`.

    The call begins when the first row is asked for. Leaving it as a context manager, or `close`, cancels it.

    >>> with client.benchmark_studies(["DistilBERT"]) as studies:  # doctest: +SKIP
    ...     for study in studies:
    ...         print(study.published.system, study.published.speedup, study.measured)
    ...     print(studies.summary.machine.cpu)
    """

    what = "benchmark"

    @property
    def summary(self) -> StudiesSummary:
        """The machine, and what disturbed it; waits for the end."""
        return self.table().summary


class AsyncStudyBenchmark(AsyncReading[StudyRow, StudyTable]):
    """The same as `StudyBenchmark`, for asyncio: `async for`, `await studies.ended()`, `await studies.table()`, `aclose`."""

    what = "benchmark"

    async def ended(self) -> StudiesSummary:
        """The machine, and what disturbed it, see `StudyBenchmark.summary`."""
        return (await self.table()).summary
