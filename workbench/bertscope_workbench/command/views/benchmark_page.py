"""Writes a benchmark as one page for those who decide: an HTML file that loads nothing."""

from __future__ import annotations

import base64
import dataclasses
import re
from collections.abc import Sequence
from typing import Any

from bertscope import BenchmarkReport, StudyTable

from bertscope_workbench.command.views import benchmark_notes, benchmark_sheets, benchmark_verdict
from bertscope_workbench.command.views.benchmark_sheets import Sheet
from bertscope_workbench.papers.templates import page_templates

INSIDE = re.compile(r"(?<=\d)(,?) (?=[\d%])")
"""Spaces inside of intervals and before a unit, at which no line may end."""


@dataclasses.dataclass(frozen=True)
class Decision:
    """The texts and tables of both pages."""

    title: str
    verdict: str
    each: Sequence[str]
    warnings: Sequence[str]
    sheets: Sequence[Sheet]
    notes: Sequence[str]


def decision(measured: BenchmarkReport | StudyTable) -> Decision:
    """Returns the texts and tables of a benchmark's page."""
    if isinstance(measured, BenchmarkReport):
        title = benchmark_notes.heading(measured)
        verdict, each = benchmark_verdict.verdict(measured), benchmark_verdict.model_verdicts(measured)
        sheets, notes = benchmark_sheets.report_sheets(measured, full=True), benchmark_notes.report_notes(measured)
        warnings = measured.warnings
    else:
        title = "published compressed models, measured"
        done = sum(study.measured is not None for study in measured.studies)
        verdict = f"{done} of {len(measured.studies)} published systems were measured here, as shapes with random weights."
        each = [f"not measured: {system}: {reason}" for system, reason in benchmark_sheets.not_measured(measured)]
        sheets, notes = [benchmark_sheets.study_sheet(measured, full=True)], benchmark_notes.study_notes(measured)
        warnings = measured.summary.warnings
    return Decision(f"{title[:1].upper()}{title[1:]}", verdict, each, warnings, sheets, [note for note in notes if note])


def document(measured: BenchmarkReport | StudyTable) -> dict[str, Any]:
    """Returns the benchmark in JSON types, warnings first."""
    warnings = measured.warnings if isinstance(measured, BenchmarkReport) else measured.summary.warnings
    return {"warnings": warnings} | dataclasses.asdict(measured)


def html_page(measured: BenchmarkReport | StudyTable) -> str:
    """Returns the page."""
    pages = page_templates("command/views")
    return pages.get_template("benchmark.html").render(
        page=decision(measured),
        whole=lambda text: INSIDE.sub("\\1\N{NO-BREAK SPACE}", text),
        picture=base64.b64encode(picture).decode("ascii") if (picture := _picture(measured)) else "",
    )


def _picture(measured: BenchmarkReport | StudyTable) -> bytes | None:
    """Returns speed-up against quality as SVG; None where there is nothing to draw."""
    if not drawable(measured):
        return None
    from bertscope_workbench.plots.benchmark import plot_benchmark
    from bertscope_workbench.plots.figures import svg_bytes

    return svg_bytes(plot_benchmark(quiet(measured), title="")) if isinstance(measured, BenchmarkReport) else None


def drawable(measured: BenchmarkReport | StudyTable) -> bool:
    """Returns whether there is a speed-up and a quality to draw."""
    if isinstance(measured, StudyTable) or len(measured.models) < 2:
        return False
    return bool(measured.metrics) or any(model.agreement or model.vectors for model in measured.models)


def quiet(report: BenchmarkReport) -> BenchmarkReport:
    """Returns the report for a figure below whose warnings the page has said already."""
    return dataclasses.replace(report, warnings=())
