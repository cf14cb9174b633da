"""Says what the terminal, the page and LaTeX show of a benchmark: title, verdict, warnings, sheets and notes; prints it."""

from collections.abc import Sequence
from dataclasses import dataclass

from bertscope import BenchmarkReport, Disturbances, Machine, ModelReport, StudyTable
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bertscope_workbench.command.views import benchmark_sheets, benchmark_verdict
from bertscope_workbench.command.views.benchmark_sheets import Sheet
from bertscope_workbench.command.views.output import count, fits, plural, printable, table, titled

Measured = BenchmarkReport | StudyTable

SEVERAL = 4
"""So many models are not named in a title."""

INTERVALS = "[low, high] is an interval over this run: it covers noise only, not bias from neighbours or from another machine"
FORMATS = "times smaller: in the number formats that models ran in, not of the files, which may have fewer bytes a number"


@dataclass(frozen=True)
class Asked:
    """The circumstances of a benchmark, which its page begins with."""

    command: str
    """The command line."""
    day: str
    """The day of the measurement, as "29 November 2026"."""
    files: Sequence[str] = ()
    """The files that models were scored and compared on, each with its number of items."""
    items: int | None = None
    """The number of items that they were scored on."""


@dataclass(frozen=True)
class Shown:
    """The texts and tables of a benchmark."""

    title: str
    asked: Asked | None
    verdict: str
    each: Sequence[str]
    """A sentence for each model but the baseline."""
    warnings: Sequence[str]
    sheets: Sequence[Sheet]
    not_measured: Sequence[str]
    """Systems that were not measured, with the reason."""
    notes: Sequence[str]
    """On intervals, the machine, the libraries, and disturbances of the measurement."""


def shown(measured: Measured, asked: Asked | None = None, *, full: bool) -> Shown:
    """Returns what is shown. `full` gives numbers also for indistinguishable ratios."""
    if isinstance(measured, BenchmarkReport):
        return Shown(
            _heading(measured),
            asked,
            benchmark_verdict.verdict(measured, asked.items if asked else None),
            benchmark_verdict.model_verdicts(measured),
            measured.warnings,
            benchmark_sheets.report_sheets(measured, full=full),
            (),
            _notes(measured, measured.models, measured.seconds, measured.machine, measured.disturbances),
        )
    summary, models = measured.summary, [study.measured for study in measured.studies if study.measured]
    return Shown(
        "published compressed models, measured",
        asked,
        f"{len(models)} of {len(measured.studies)} published systems were measured here, as shapes with random weights.",
        (),
        summary.warnings,
        [benchmark_sheets.study_sheet(measured, full=full)] if models else [],
        [f"{study.published.system}: {study.not_measured}" for study in measured.studies if not study.measured],
        _notes(None, models, summary.seconds, summary.machine, summary.disturbances),
    )


def print_benchmark(screen: Console, measured: Measured, asked: Asked | None = None) -> None:
    """Prints the decision, sizes, speed and losses, or systems as published and as measured; then how it was measured."""
    found = shown(measured, asked, full=False)
    screen.print(printable(found.title), style="bold")
    screen.print(printable(found.verdict))
    for warning in found.warnings:
        screen.print(Text("warning: ").append_text(printable(warning)), style="bold yellow")
    for sheet in found.sheets:
        for part in benchmark_sheets.parts(sheet, lambda part: fits(screen, _table(part))):
            screen.print(titled(part.title, _table(part)))
    for reason in found.not_measured:
        screen.print(Text("not measured: ", style="yellow").append_text(printable(reason)))
    for note in found.notes:
        screen.print(printable(note), style="dim")


def _table(sheet: Sheet) -> Table:
    rows = ([name, *(_cell(cell) for group in sheet.groups for cell in group.rows[at])] for at, name in enumerate(sheet.names))
    return table([sheet.key, *(column for group in sheet.groups for column in group.columns)], rows)


def _cell(text: str) -> Text:
    return (
        Text(text, style="dim")
        if text in (benchmark_sheets.NOT_DISTINGUISHABLE, benchmark_sheets.BASELINE)
        else printable(text)
    )


def _heading(report: BenchmarkReport) -> str:
    """Returns the compared models, and how all of them ran if that was the same."""
    runtimes = {model.provenance.runtime for model in report.models}
    how = f", all run by {runtimes.pop()}" if len(report.models) > len(runtimes) == 1 else ""
    others = [benchmark_sheets.short(model.name) for model in report.models if model.name != report.baseline]
    compared = f"{' and '.join(', '.join(others).rsplit(', ', 1))} beside " if 0 < len(others) < SEVERAL else ""
    return f"benchmark of {compared}{benchmark_sheets.short(report.baseline)}{how}"


def _notes(
    report: BenchmarkReport | None,
    models: Sequence[ModelReport],
    seconds: float,
    machine: Machine,
    disturbances: Disturbances,
) -> list[str]:
    versions = {name: version for model in models for name, version in model.provenance.library_versions.items()}
    how = report.bootstrap if report else None
    notes = (
        INTERVALS if models else "",
        FORMATS if any(abs(model.size_ratio - model.compression) > 0.01 for model in models if model.size_ratio) else "",
        f"{100 * how.confidence:.4g} % intervals: {how.resamples} resamples, seed {how.seed}" if how else "",
        machine_note(machine),
        ", ".join(f"{name} {version}" for name, version in sorted(versions.items())),
        f"{seconds:.1f} s, {disturbances_note(machine, disturbances)}",
    )
    return [note for note in notes if note]


def machine_note(machine: Machine) -> str:
    """Returns the machine in one line; empty for a machine that measured nothing."""
    if not machine.cores:
        return ""
    parts = [
        machine.cpu,
        plural(machine.cores, "core"),
        plural(machine.threads, "thread"),
        *machine.cpu_flags,
        *machine.gpus,
        f"{count(machine.memory_bytes, 'B')} of memory",
        machine.system,
    ]
    return ", ".join(filter(None, parts))


def disturbances_note(machine: Machine, disturbances: Disturbances) -> str:
    """Returns the disturbances of the measurement."""
    calls = disturbances.waited + disturbances.refused
    others = f"other calls: {disturbances.waited} waited, {disturbances.refused} refused" if calls else "no other calls"
    return f"{others}, other processes took {100 * machine.other_load:.0f} % of the processor"
