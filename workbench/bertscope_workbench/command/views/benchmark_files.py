"""Writes benchmarks: a page for those who decide, tables of LaTeX, JSON, and rows."""

import base64
import dataclasses
import re
from pathlib import Path
from typing import Any

from bertscope import BenchmarkReport, StudyTable
from bertscope.questions.benchmark.rows import columns

from bertscope_workbench.command.views import benchmark_sheets
from bertscope_workbench.command.views.benchmark_sheets import Sheet
from bertscope_workbench.command.views.benchmark_shown import Asked, Measured, shown
from bertscope_workbench.command.views.files import require_matplotlib, require_output, written
from bertscope_workbench.command.views.latex import MISSING, PAGE_LETTERS, escaped, fits_page, tabular
from bertscope_workbench.command.views.method import with_method
from bertscope_workbench.command.views.output import UsageError, json_text
from bertscope_workbench.command.views.table_files import LATEX, TABLE_FORMATS, require_table, write_table
from bertscope_workbench.papers.templates import page_templates

PAGE, JSON = ".html", ".json"
FORMATS = (PAGE, JSON, *TABLE_FORMATS)
PRINTED_LETTERS = 112
"""Letters of a line of A4, where a table is printed."""
INSIDE = re.compile(r"(?<=\d)(,?) (?=[\d%])")
"""Spaces inside of intervals and before a unit, at which no line may end."""


def require(path: Path) -> None:
    """Rejects, before anything is measured, a file that could not be written after it."""
    suffix = path.suffix.lower()
    if suffix == ".pdf":
        raise UsageError(f"--output {path}: write {path.with_suffix(PAGE)}, and print that page to a PDF in a browser")
    if suffix in TABLE_FORMATS:
        require_table(path)
    require_output(path, FORMATS)
    if suffix == PAGE:
        require_matplotlib()


def write(measured: Measured, path: Path, asked: Asked | None = None) -> None:
    """Writes a benchmark by the suffix of the file's name, one of `FORMATS`; a page and JSON say how it was `asked` for."""
    suffix = path.suffix.lower()
    if suffix in TABLE_FORMATS and suffix != LATEX:
        rows = measured.rows()
        names = columns(rows)
        write_table(names, [[row.get(name) for name in names] for row in rows], path)
        return
    with written(path) as file:
        if suffix == PAGE:
            file.write(html_page(measured, asked))
        elif suffix == LATEX:
            file.write(latex(measured))
        else:
            file.write(json_text(with_method(document(measured, asked))))


def document(measured: Measured, asked: Asked | None = None) -> dict[str, Any]:
    """Returns the benchmark in JSON types, warnings first."""
    warnings = measured.warnings if isinstance(measured, BenchmarkReport) else measured.summary.warnings
    about = {} if asked is None else {"asked": dataclasses.asdict(asked)}
    return {"warnings": warnings} | about | dataclasses.asdict(measured)


def html_page(measured: Measured, asked: Asked | None = None) -> str:
    """Returns the benchmark as one page that loads nothing. Groups of columns that are wider than paper go on below."""
    found = shown(measured, asked, full=True)
    sheets = [
        dataclasses.replace(part, title=sheet.title)
        for sheet in found.sheets
        for part in benchmark_sheets.parts(sheet, lambda part: _fits_page(part, PRINTED_LETTERS))
    ]
    return (
        page_templates("command/views")
        .get_template("benchmark.html")
        .render(
            page=dataclasses.replace(found, sheets=sheets),
            whole=lambda text: INSIDE.sub("\\1\N{NO-BREAK SPACE}", text),
            picture=base64.b64encode(picture).decode("ascii") if (picture := _picture(measured)) else "",
        )
    )


def latex(measured: Measured) -> str:
    """Returns the tables of the terminal as LaTeX, one after the other."""
    sheets = shown(measured, full=True).sheets
    return "\n".join(_latex(part) for sheet in sheets for part in benchmark_sheets.parts(sheet, _fits_page))


def _fits_page(sheet: Sheet, letters: int = PAGE_LETTERS) -> bool:
    return fits_page(benchmark_sheets.cells(sheet), letters)


def _latex(sheet: Sheet) -> str:
    heading, *rows = benchmark_sheets.cells(sheet)
    heads = [escaped(name.removesuffix("#")) + name[len(name.removesuffix("#")) :] for name in heading]
    return tabular(heads, [[escaped(cell) or MISSING for cell in row] for row in rows], caption=" ".join(sheet.title.split()))


def _picture(measured: Measured) -> bytes | None:
    """Returns speed-up against quality as SVG; None where there is nothing to draw."""
    if isinstance(measured, StudyTable) or len(measured.models) < 2:
        return None
    if not measured.metrics and not any(model.agreement or model.vectors for model in measured.models):
        return None
    from bertscope_workbench.plots.benchmark import plot_benchmark
    from bertscope_workbench.plots.figures import svg_bytes

    # The page has said the warnings already.
    return svg_bytes(plot_benchmark(dataclasses.replace(measured, warnings=()), title=""))
