"""Prints benchmarks in the terminal: sheets, in as few tables as fit the screen."""

from collections.abc import Iterable

from bertscope import BenchmarkReport, StudyTable
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bertscope_workbench.command.views import benchmark_notes, benchmark_sheets
from bertscope_workbench.command.views.benchmark_sheets import BASELINE, NOT_DISTINGUISHABLE, Sheet
from bertscope_workbench.command.views.output import fits, printable, table, titled


def print_report(screen: Console, report: BenchmarkReport) -> None:
    """Prints sizes, speed and losses; the machine, and disturbances."""
    screen.print(printable(benchmark_notes.heading(report)), style="bold")
    _print_warnings(screen, report.warnings)
    for sheet in benchmark_sheets.report_sheets(report, full=False):
        print_sheet(screen, sheet)
    _print_notes(screen, benchmark_notes.report_notes(report))


def print_studies(screen: Console, studies: StudyTable) -> None:
    """Prints the measured systems, the others with the reason, and the machine."""
    _print_warnings(screen, studies.summary.warnings)
    sheet = benchmark_sheets.study_sheet(studies, full=False)
    if sheet.names:
        print_sheet(screen, sheet)
    for system, reason in benchmark_sheets.not_measured(studies):
        screen.print(Text("not measured: ", style="yellow").append_text(printable(f"{system}: {reason}")))
    _print_notes(screen, benchmark_notes.study_notes(studies))


def print_sheet(screen: Console, sheet: Sheet) -> None:
    """Prints the groups of a sheet, as many side by side as fit the screen."""
    for part in benchmark_sheets.parts(sheet, lambda part: fits(screen, _table(part))):
        screen.print(titled(part.title, _table(part)))


def _table(sheet: Sheet) -> Table:
    result = table([sheet.key, *(column for group in sheet.groups for column in group.columns)])
    for index, name in enumerate(sheet.names):
        result.add_row(printable(name), *(_cell(cell) for group in sheet.groups for cell in group.rows[index]))
    return result


def _cell(text: str) -> Text:
    return Text(text, style="dim") if text in (NOT_DISTINGUISHABLE, BASELINE) else printable(text)


def _print_warnings(screen: Console, warnings: Iterable[str]) -> None:
    for warning in warnings:
        screen.print(Text("warning: ").append_text(printable(warning)), style="bold yellow")


def _print_notes(screen: Console, notes: Iterable[str]) -> None:
    for note in filter(None, notes):
        screen.print(printable(note), style="dim")
