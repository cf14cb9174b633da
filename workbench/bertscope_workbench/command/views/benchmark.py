"""Prints benchmarks in the terminal: sheets, in as few tables as fit the screen."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bertscope_workbench.command.views import benchmark_sheets
from bertscope_workbench.command.views.benchmark_sheets import BASELINE, NOT_DISTINGUISHABLE, Sheet
from bertscope_workbench.command.views.benchmark_shown import Measured, shown
from bertscope_workbench.command.views.output import fits, printable, table, titled


def print_benchmark(screen: Console, measured: Measured) -> None:
    """Prints sizes, speed and losses, or systems as published and as measured; what was not, the machine, and disturbances."""
    found = shown(measured, full=False)
    screen.print(printable(found.title), style="bold")
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
    result = table([sheet.key, *(column for group in sheet.groups for column in group.columns)])
    for index, name in enumerate(sheet.names):
        result.add_row(printable(name), *(_cell(cell) for group in sheet.groups for cell in group.rows[index]))
    return result


def _cell(text: str) -> Text:
    return Text(text, style="dim") if text in (NOT_DISTINGUISHABLE, BASELINE) else printable(text)
