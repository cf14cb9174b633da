"""Tables for papers: escaped, with units, intervals and dashes, and LaTeX takes them."""

import shutil
import subprocess
from pathlib import Path

import bertscope
import pytest
from bertscope.questions.attention.description import STATISTICS
from bertscope.questions.benchmark.replies import benchmark_event
from bertscope.v1 import benchmark_pb2
from bertscope_workbench.command.views import benchmark_files
from bertscope_workbench.command.views.latex import ESCAPES, latex_table
from bertscope_workbench.command.views.table_files import write_table
from bertscope_workbench.command.views.units import UNITS

from tests.support import reports

COLUMNS = ["relation", "layer", "accuracy", "low", "high", "loss", "seed_low", "seed_high"]
ROWS = [
    ["det & 50_%", 3, 0.7134, 0.66, 0.7612, -1.25, 0.7, 0.72],
    ["a\\b--c\n{x}", 11, 0.5, None, None, float("nan"), None, None],
]


def test_units_are_of_columns_that_are_written():
    sources = "".join(path.read_text() for path in Path(bertscope.__file__).parent.joinpath("questions").rglob("*.py"))
    names = {name.removeprefix("baseline_") for name in UNITS} - set(STATISTICS)
    assert [name for name in names if f'"{name}"' not in sources] == []


def test_latex_takes_every_letter_that_it_would_read_otherwise_and_no_table_is_wider_than_a_page(tmp_path):
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed here: it is what reads the tables")
    write_table(
        COLUMNS, [*ROWS, ["".join(map(chr, ESCAPES)) + "é–##ing", 1, 0.1, 0.0, 0.2, 1.0, 0.1, 0.1]], tmp_path / "rows.tex"
    )
    write_table(["word", "p"], [["x", 0.1]] * 100, tmp_path / "long.tex")
    write_table([f"quantity {number}" for number in range(20)], [[0.123] * 20], tmp_path / "wide.tex")
    models = [reports.model(f"{name}_with_a_long_name", speed, kept=0.9) for name, speed in (("small", 2.0), ("same", 1.01))]
    message = reports.report(reports.model("big_one"), *models)
    measured = benchmark_event(benchmark_pb2.BenchmarkModelsResponse(report=message))
    (tmp_path / "benchmark.tex").write_text(benchmark_files.latex(measured))
    inputs = "\n\n".join(rf"\input{{{name}}}" for name in ("rows.tex", "long.tex", "wide.tex", "benchmark.tex"))
    packages = r"\usepackage{booktabs,graphicx,longtable,textcomp}\parindent0pt"
    (tmp_path / "page.tex").write_text(rf"\documentclass{{article}}{packages}\begin{{document}}{inputs}\end{{document}}")
    found = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"], cwd=tmp_path, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stdout[-2000:]
    assert "Overfull" not in found.stdout, found.stdout


def test_tables(stored) -> None:
    first = ["*bad", "[MASK]", "a---b", "''x`` ,,y", "?` !`"]
    metrics = [["loss", 0.5, 0.25, 0.75], ["accuracy", -0.5, -0.6, -0.4]]
    infinity = float("inf")
    values = (
        [123.456, 1.0],
        [1.0, 0.8333, 0.0],
        [0.0123, 0.5],
        [0.9, 2e-6],
        [1_234_567, -1],
        [True, False],
        [infinity, -infinity],
    )
    long = latex_table(["word", "p"], [["x" * 60, 0.1]] * 41)
    assert long.count("\\bottomrule") == 1
    stored(
        an_estimate_and_its_interval_are_one_column=latex_table(COLUMNS, ROWS),
        narrow=latex_table(COLUMNS[:5], [row[:5] for row in ROWS]),
        beginnings_of_rows_and_pairs_of_letters=latex_table(["text"], [[text] for text in first]),
        units_of_metrics=latex_table(["metric", "difference", "low", "high"], metrics),
        units_of_the_table=latex_table(["difference", "bits"], [[1.5, 1.5]], {"difference": "nats"}),
        numbers=[latex_table(["x"], [[value] for value in each]) for each in values],
        of_more_than_a_page="\n".join([*long.splitlines()[:20], *long.splitlines()[-3:]]),
    )
