"""Prints declared studies."""

from __future__ import annotations

from rich.console import Console

from bertscope_workbench.command.views.output import fits, printable, table, titled
from bertscope_workbench.studies.declared import PartResult, StudyResult
from bertscope_workbench.studies.declared_page import (
    comparison_lines,
    difference_table,
    figures_table,
    left_out,
    verdict_line,
    verdict_table,
)
from bertscope_workbench.studies.definition import Definition
from bertscope_workbench.studies.report import Table

MAX_ROWS = 30
"""The most rows of a table on the screen; the page has all."""


def print_list(screen: Console, definitions: list[Definition]) -> None:
    """Prints the shipped studies with their parts and data."""
    rows = table(["study", "part", "data (--data DIR)", "question"])
    for definition in definitions:
        for part in definition.parts:
            data = "ships with bertscope" if part.shipped else ", ".join(part.files)
            rows.add_row(*map(printable, (definition.name, part.name, data, part.title)))
    rows.add_row("layers", "1 to 4.4", "*.conllu", "what layers hold, a command of its own")
    rows.add_row("dark-secrets", "4.1 to 4.6", "*.conllu, *.tsv, ...", "Kovaleva et al. 2019, a command of its own")
    screen.print(rows)


def print_study(screen: Console, result: StudyResult) -> None:
    """Prints all figures of a study, with verdicts and what was left out."""
    for part in result.parts:
        _print_part(screen, part)


def _print_part(screen: Console, part: PartResult) -> None:
    if not part.answers:
        screen.print(
            printable(f"left out: {part.questions.missing or part.questions.part.name}"), style="yellow", soft_wrap=True
        )
        return
    _print_table(screen, figures_table(part))
    if part.differences:
        _print_table(screen, difference_table(part))
    if part.questions.part.published:
        _print_table(screen, verdict_table(part))
    for answers in part.answers:
        screen.print(printable(verdict_line(answers)), style="bold", soft_wrap=True)
    for line in [*comparison_lines(part), *left_out(part)]:
        screen.print(printable(line), soft_wrap=True)
    screen.print()


def _print_table(screen: Console, content: Table) -> None:
    shown = table(content.columns, (map(printable, row) for row in content.rows[:MAX_ROWS]))
    more = len(content.rows) - MAX_ROWS
    if not fits(screen, shown) and content.columns[-1] == "source":
        _print_table(screen, Table(content.caption, content.columns[:-1], [row[:-1] for row in content.rows]))
        return
    screen.print(titled(content.caption + (f" (the first {MAX_ROWS} rows of {MAX_ROWS + more})" if more > 0 else ""), shown))
