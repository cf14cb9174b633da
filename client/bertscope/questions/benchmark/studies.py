"""Defines the table of `benchmark_studies`: published compressed models, as published and as measured on the server's
machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bertscope.questions.benchmark import rows
from bertscope.questions.benchmark.reports import Disturbances, Machine, ModelReport
from bertscope.values.display import data_frame, record, table_html

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Published", "StudiesSummary", "StudyRow", "StudyTable"]


@record
class Published:
    """The published figures of a system, relative to `relative_to`: Table 1 of Rogers et al. 2020, "A Primer in BERTology"."""

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


@record
class StudyRow:
    """One system: as published, and as measured."""

    published: Published
    """The published figures."""
    not_measured: str
    """Why it can't be measured; empty if it was."""
    built: str
    """The built model in words: "bert, 6 layers x 768, 12 heads"."""
    measured: ModelReport | None
    """Its measurements, against `baseline`; None if it was not measured."""
    baseline: str
    """The baseline of the measurements: "BERT-base", "BERT-large" or "mBERT"."""
    baseline_measured: ModelReport | None
    """The baseline's measurements, taken in alternation."""


@record
class StudiesSummary:
    """The end of a benchmark of studies."""

    machine: Machine
    """The machine."""
    disturbances: Disturbances
    """Other calls for the device."""
    seconds: float
    """Duration of the benchmark."""
    warnings: tuple[str, ...] = ()
    """Warnings to read before the figures, as `BenchmarkReport.warnings`."""


@dataclass(frozen=True, repr=False)
class StudyTable:
    """All systems of one call."""

    studies: tuple[StudyRow, ...]
    """Systems in the order of the reply."""
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
        """Returns a row for each system and length; a single one for a system that was not measured."""
        return rows.study_rows(self)

    def _repr_html_(self) -> str | None:
        return table_html(self)

    def to_pandas(self) -> pd.DataFrame:
        """Returns a row for each system and length: the published figures ("published_..."), why it was not measured, the built
        model, and the columns of `BenchmarkReport.to_pandas` for size and speed. Needs the extra "pandas"."""
        return data_frame(self.rows())
