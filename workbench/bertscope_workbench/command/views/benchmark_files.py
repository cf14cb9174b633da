"""Writes benchmarks: JSON, Markdown, tables of LaTeX, a page as HTML or PDF, and rows as CSV or JSON lines."""

import csv
import io
from collections.abc import Callable, Iterable
from pathlib import Path

from bertscope import BenchmarkReport, StudyTable
from bertscope.questions.benchmark.rows import columns

from bertscope_workbench.command.views import benchmark_notes, benchmark_sheets
from bertscope_workbench.command.views.benchmark_page import document, html_page
from bertscope_workbench.command.views.benchmark_pdf import pdf_page
from bertscope_workbench.command.views.benchmark_sheets import Sheet
from bertscope_workbench.command.views.files import kept
from bertscope_workbench.command.views.latex import MISSING, escaped, fits_page, tabular
from bertscope_workbench.command.views.method import with_method
from bertscope_workbench.command.views.output import json_text

Measured = BenchmarkReport | StudyTable


def write(measured: Measured, path: Path) -> None:
    """Writes a benchmark by the suffix of the file's name, one of `FORMATS`."""
    content = WRITERS[path.suffix.lower()](measured)
    raw = content if isinstance(content, bytes) else content.encode()

    def save(file: Path) -> None:
        file.write_bytes(raw)

    kept(save, path)


def markdown(measured: Measured) -> str:
    """Returns the benchmark as Markdown: the terminal's contents, and the intervals of indistinguishable ratios."""
    if isinstance(measured, BenchmarkReport):
        title, warnings = benchmark_notes.heading(measured), measured.warnings
        title = title[:1].upper() + title[1:]
        notes = benchmark_notes.report_notes(measured)
    else:
        title, warnings = "Published compressed models, measured", measured.summary.warnings
        notes = benchmark_notes.study_notes(measured)
        left_out = benchmark_sheets.not_measured(measured)
        notes = [*(f"Not measured: {system}: {reason}" for system, reason in left_out), *notes]
    warned = [f"> **Warning:** {_escaped(warning)}" for warning in warnings]
    parts = [
        f"# {_escaped(title)}",
        *warned,
        *map(_markdown_sheet, _sheets(measured)),
        "\n".join(f"- {_escaped(note)}" for note in notes if note),
    ]
    return "\n\n".join(parts) + "\n"


def latex(measured: Measured) -> str:
    """Returns the tables of the terminal as LaTeX, one after the other."""
    sheets = (part for sheet in _sheets(measured) for part in benchmark_sheets.parts(sheet, _fits_page))
    return "\n".join(map(_latex_sheet, sheets))


def _sheets(measured: Measured) -> list[Sheet]:
    if isinstance(measured, BenchmarkReport):
        return benchmark_sheets.report_sheets(measured, full=True)
    return [benchmark_sheets.study_sheet(measured, full=True)]


def _json(measured: Measured) -> str:
    return json_text(with_method(document(measured)))


def _csv(measured: Measured) -> str:
    rows = measured.rows()
    names = columns(rows)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([row.get(name) for name in names] for row in rows)
    return text.getvalue()


def _json_lines(measured: Measured) -> str:
    return "".join(json_text(row, indent=None) for row in measured.rows())


WRITERS: dict[str, Callable[[Measured], str | bytes]] = {
    ".md": markdown,
    ".tex": latex,
    ".html": html_page,
    ".pdf": pdf_page,
    ".csv": _csv,
    ".json": _json,
    ".jsonl": _json_lines,
}
FORMATS = tuple(WRITERS)
PAGES = (".html", ".pdf")
"""Formats that have a figure."""


def _markdown_sheet(sheet: Sheet) -> str:
    heading, *rows = benchmark_sheets.cells(sheet)
    rule = ["---:" if name.endswith("#") else "---" for name in heading]
    names = [name.removesuffix("#") for name in heading]
    lines = [f"## {_escaped(sheet.title)}", "", _markdown_row(names), _markdown_row(rule, escape=False)]
    return "\n".join([*lines, *map(_markdown_row, rows)])


def _fits_page(sheet: Sheet) -> bool:
    return fits_page(benchmark_sheets.cells(sheet))


def _latex_sheet(sheet: Sheet) -> str:
    heading, *rows = benchmark_sheets.cells(sheet)
    heads = [escaped(name.removesuffix("#")) + name[len(name.removesuffix("#")) :] for name in heading]
    return tabular(heads, [[escaped(cell) or MISSING for cell in row] for row in rows], caption=" ".join(sheet.title.split()))


def _markdown_row(cells: Iterable[str], *, escape: bool = True) -> str:
    return f"| {' | '.join(_escaped(cell) if escape else cell for cell in cells)} |"


def _escaped(text: str) -> str:
    """Returns the text on one line, with characters that would end a cell or begin markup escaped."""
    for char in "\\|`*<":
        text = text.replace(char, f"\\{char}")
    return " ".join(text.split())
