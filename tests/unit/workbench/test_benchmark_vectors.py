"""Benchmarks of models that embed texts: how vectors that moved are read, printed, written, drawn and said."""

import bertscope
from bertscope_workbench.command.views import benchmark as benchmark_view
from bertscope_workbench.command.views import benchmark_files
from bertscope_workbench.command.views.benchmark_verdict import verdict

from tests.support import reports
from tests.support.benchmarked import report
from tests.support.stored_outputs import printed

REPORT = report(
    reports.model("base", scores=False),
    reports.model("near", 2.0, kept=0.9, vectors=True, scores=False),
    reports.model("wide", 1.5, kept=0.8, vectors=True, cosine=None, scores=False),
)


def test_vectors_that_moved(stored) -> None:
    stored(
        models=[REPORT.model(name).vectors for name in ("base", "near", "wide")],
        frame=REPORT.to_pandas(),
        columns_of_predictions=list(report(reports.model("base"), reports.model("small", 2.0)).to_pandas()),
        printed=printed(benchmark_view.print_report, REPORT, width=140),
        latex=benchmark_files.latex(REPORT),
        markdown=benchmark_files.markdown(REPORT),
        verdict=verdict(REPORT),
        figure=bertscope.plot_benchmark(REPORT),
    )
