"""Benchmarks of models that embed texts: how vectors that moved are read, printed, written, drawn and said."""

import io

import bertscope
import pytest
from bertscope_workbench.command.views import benchmark as benchmark_view
from bertscope_workbench.command.views import benchmark_files
from bertscope_workbench.command.views.benchmark_page import html_page
from bertscope_workbench.command.views.benchmark_verdict import verdict
from rich.console import Console

from tests.support import reports
from tests.support.benchmarked import report

REPORT = report(
    reports.model("base", scores=False),
    reports.model("near", 2.0, kept=0.9, vectors=True, scores=False),
    reports.model("wide", 1.5, kept=0.8, vectors=True, cosine=None, scores=False),
)


def test_vectors_are_read_whole() -> None:
    near, wide = (REPORT.model(name).vectors for name in ("near", "wide"))
    assert near is not None
    assert near == bertscope.VectorAgreement(
        *(pytest.approx(value) for value in (0.97, 0.96, 0.98, 0.9, 0.8, 1, 5, 0.45, 0.225, 0.9, 40))
    )
    assert wide is not None
    assert wide.cosine is wide.cosine_low is wide.cosine_high is None
    assert REPORT.model("base").vectors is REPORT.model("near").agreement is None


def test_rows_have_columns_of_vectors_only_where_they_were_compared() -> None:
    base, _, near, *_ = REPORT.rows()
    assert (near["cosine"], near["neighbours"], near["rank_correlation"]) == (0.97, 0.9, 0.45)
    assert (near["neighbours_low"], near["k"], near["places"], near["top_1"]) == (pytest.approx(0.8), 5, 40, None)
    assert base["cosine"] is base["k"] is base["places"] is None
    predicted = report(reports.model("base"), reports.model("small", 2.0)).rows()[-1]
    assert "cosine" not in predicted
    assert (predicted["k"], predicted["places"]) == (5, 120)


def test_the_terminal_and_latex_show_means_with_intervals_and_a_dash_for_none() -> None:
    screen = Console(width=140, file=io.StringIO())
    benchmark_view.print_report(screen, REPORT)
    lines = screen.file.getvalue().splitlines()
    assert "what was lost: vectors of 40 texts" in lines
    near = next(line for line in lines if "0.9700 [0.9600, 0.9800]" in line)
    assert " ".join(near.split()) == "near 0.9700 [0.9600, 0.9800] 90.0 % [80.0, 100.0] 0.4500 [0.2250, 0.9000]"
    assert any(line.split()[:3] == ["wide", "-", "80.0"] for line in lines)
    assert any("same of 5 nearest" in line for line in lines)
    assert "80.0 \\%" in benchmark_files.latex(REPORT)
    assert "| near | 0.9700 [0.9600, 0.9800] | 90.0 % [80.0, 100.0] |" in benchmark_files.markdown(REPORT)


def test_the_verdict_and_the_figure_are_of_neighbours() -> None:
    said = verdict(REPORT)
    assert "near is the fastest" in said
    assert said.endswith("with 90.0 % of each text's 5 nearest the same, and a rank correlation of similarities of 0.45.")
    figure = bertscope.plot_benchmark(REPORT)
    panel = figure.axes[0]
    assert panel.get_ylabel() == "same of 5 nearest texts, %"
    assert [dot.get_offsets()[0].tolist() for dot in panel.collections] == [
        pytest.approx(place) for place in ([1, 100], [2, 90], [1.5, 80])
    ]
    assert [line.get_ydata() for line in panel.lines if line.get_ydata()[0] == pytest.approx(80)]
    assert html_page(REPORT).count("<svg") + html_page(REPORT).count("data:image/svg") >= 1
