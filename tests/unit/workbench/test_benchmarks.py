"""What the command says of benchmarks: in the terminal, as LaTeX and pages, and in figures."""

import math
import re
from dataclasses import replace
from typing import Any

import bertscope_workbench as workbench
import pytest
from bertscope import BenchmarkReport, Bootstrap, Machine, Ratio, StudyTable
from bertscope.questions.benchmark import messages as replies
from bertscope.v1 import benchmark_pb2, common_pb2
from bertscope_workbench.command.views import benchmark_files, benchmark_sheets, benchmark_shown
from bertscope_workbench.command.views.benchmark_files import document, html_page
from bertscope_workbench.command.views.benchmark_verdict import model_verdicts, verdict
from matplotlib.text import Annotation

from tests.support import reports
from tests.support.reports import read_report as report
from tests.support.reports import read_studies as studies
from tests.support.stored_outputs import printed

SMALL = reports.model(
    "small",
    2.0,
    kept=0.9,
    parameters=50_000_000,
    compression=4,
    precision=common_pb2.PRECISION_BFLOAT16,
    runtime=common_pb2.RUNTIME_ONNX,
    steps=("half", "onnx"),
)
REPORT = report(reports.model("big"), reports.model("same", 1.01), SMALL)
STUDIES = studies(
    reports.study("DistilBERT (Sanh 2019a)", 1.9, compression="1.5", speedup="1.6"),
    reports.study("IMP (Chen 2020)", 0.99, compression="1.4-2.5"),
    reports.study("WaLDORf (Tian 2019)", why="it has convolutional layers", compression="4.4"),
)


BUSY = "other processes took 63 % of the processor"


def shown(measured: BenchmarkReport | StudyTable, width: int = 120) -> str:
    return printed(benchmark_shown.print_benchmark, measured, width=width)


@pytest.mark.slow
@pytest.mark.parametrize("measured", [REPORT, STUDIES], ids=["report", "studies"])
def test_wide_and_narrow_screens(measured, stored) -> None:
    texts = {width: shown(measured, width) for width in (80, 100, 120, 160)}
    for width, text in texts.items():
        lines = text.split("\n[")[0].splitlines()
        assert max(map(len, lines)) <= width
        words = " ".join(" ".join(line.split()) for line in lines)
        for whole in ("not distinguishable", "1.90 [1.80, 1.99]" if measured is STUDIES else "2.00 [1.90, 2.10]"):
            assert whole in words
    stored(wide=texts[120], narrow=texts[80])


def test_sizes_that_files_do_not_show_are_explained() -> None:
    first, second, *_ = REPORT.models
    other = replace(REPORT, models=(first, replace(second, size_ratio=2.0)))
    assert [benchmark_shown.FORMATS in shown(measured) for measured in (REPORT, other)] == [False, True]


def test_runtimes_references_and_what_is_missing(stored) -> None:
    onnx = common_pb2.RUNTIME_ONNX
    alike: dict[str, Any] = {"runtime": onnx, "scores": False, "agreement": False}
    loaded = reports.model("b", 2.0, **alike, loaded_runtime=common_pb2.RUNTIME_TORCH)
    across = report(
        reports.model("a"),
        reports.model("b", 5.0, runtime=onnx, caveat="other runtime"),
        reports.model("c", 1.01, runtime=onnx, caveat="other runtime"),
        warnings=[BUSY],
        cut_short=True,
    )
    graphs = reports.model("b", 2.0, **alike)
    reference = reports.model("a", runtime=onnx, loaded_runtime=common_pb2.RUNTIME_TORCH)
    graphs.compared_with.CopyFrom(reference.provenance)
    message = reports.report(reports.model("a", scores=False), graphs)
    message.references.append(reference)
    sparse = reports.model("a")
    sparse.nonzero_parameters = 40_000_000
    bare = report(reports.model("a", scores=False), reports.model("b", 2.0, scores=False, agreement=False, lengths=(0,)))
    stored(
        all_run_alike=shown(report(reports.model("a", **alike), loaded, reports.model("c", 1.0, **alike))),
        across_runtimes=shown(across, 160),
        the_baseline_in_another_form=shown(replies.benchmark_event(benchmark_pb2.BenchmarkModelsResponse(report=message)), 160),
        not_measured=shown(bare),
        zeros=shown(report(sparse)),
        nothing=shown(studies(reports.study("WaLDORf (Tian 2019)", why="it has convolutional layers"))),
        markup=text_of(html_page(studies(reports.study("a|b *c* <d>\ne", 2.0)))),
    )


def test_numbers_ratios_and_notes(stored) -> None:
    values = 0.0, 0.01234, 0.999, 1.9349, 2.409, 43.21, 110.2, 437.9, 1240.4, 1e9
    without = Ratio(0.471, 0.0, math.inf, "not_distinguishable", no_interval="too_few_items")
    ratios = Ratio(0.004, 0.003, 0.005, "below"), Ratio(0.471, 0.46, 0.48, "below"), Ratio(434.2, 400, 500, "above"), without
    stored(
        three_digits=[benchmark_sheets.number(value) for value in values],
        factors=[benchmark_sheets.factor(value) for value in values],
        ratios=[benchmark_sheets.ratio(ratio, baseline=False, full=full) for ratio in ratios for full in (False, True)],
        shares=benchmark_sheets.ratio(without, baseline=False, full=True, percent=True),
        notes=benchmark_shown.shown(
            replace(REPORT, bootstrap=Bootstrap(resamples=200, seed=7, confidence=0.9)), full=True
        ).notes,
        no_machine=benchmark_shown.machine_note(Machine("", 0, (), (), 0, 0, "", 0.0)),
    )


BIG = reports.model("big", lengths=(32,))
SAME = reports.model("same", 1.01, lengths=(32,))
SMALLER = reports.model("small", 2.0, kept=0.9, parameters=25_000_000, lengths=(32,))
DRAWN = report(BIG, SAME, SMALLER)


def test_an_interval_without_an_end_reaches_the_edge_and_moves_nothing_else():
    endless = reports.model("small", 2.0, kept=0.9, lengths=(32,))
    for score in endless.scores:
        score.retained.low, score.retained.high = 0, math.inf
    axes = workbench.plot_benchmark(report(BIG, endless)).axes[0]
    assert axes.get_ylim()[1] < 200
    assert any(line.get_xdata()[0] == 2 and line.get_ydata()[1] > axes.get_ylim()[1] for line in axes.lines)


def test_figures_of_benchmarks(stored) -> None:
    both = reports.model("big"), reports.model("same", 1.01), reports.model("small", 2.0, kept=0.9, parameters=25_000_000)
    other = reports.model("other", 5.0, lengths=(32,), caveat="other runtime")
    message = reports.report(BIG, other, SMALLER, warnings=["others took 63 % of the processor"])
    warned = replies.benchmark_event(benchmark_pb2.BenchmarkModelsResponse(report=message))
    bare = [reports.model("a", scores=False, lengths=(32,)), reports.model("b", 2.0, kept=0.97, scores=False, lengths=(32,))]
    lost, useless = reports.model("lost", 3.0, lengths=(32,)), reports.model("useless", 3.0, lengths=(32,))
    lost.scores[0].ClearField("retained")
    useless.scores[0].retained.CopyFrom(reports.ratio(0.0))
    stored(
        a_panel_for_each_length=workbench.plot_benchmark(report(*both)),
        warned=workbench.plot_benchmark(warned, dark=True),
        throughput=workbench.plot_benchmark(DRAWN, offline=True),
        agreement=workbench.plot_benchmark(report(*bare), title="$"),
        without_a_quality=workbench.plot_benchmark(report(BIG, lost)),
        of_no_quality=workbench.plot_benchmark(report(BIG, useless)),
        far_apart=workbench.plot_benchmark(report(BIG, reports.model("b", 77.0, lengths=(32,)))),
        nothing=lambda: workbench.plot_benchmark(
            report(reports.model("a", scores=False), reports.model("b", 2.0, scores=False, agreement=False))
        ),
    )


@pytest.mark.slow
def test_names_cover_neither_each_other_nor_leave_the_panel():
    near = [reports.model(f"a-rather-long-name-{n}", 1 + n / 50, kept=1 - n / 200, lengths=(32,)) for n in range(4)]
    (axes,) = workbench.plot_benchmark(report(BIG, *near)).axes
    boxes = [child.get_window_extent() for child in axes.get_children() if isinstance(child, Annotation)]
    assert len(boxes) == 5
    assert not any(one.overlaps(other) for index, one in enumerate(boxes) for other in boxes[:index])
    assert all(axes.bbox.x0 <= box.x0 and box.x1 <= axes.bbox.x1 for box in boxes)


BASE = reports.model("base")
UNSCORED = reports.model("base", scores=False)
SHOWN = reports.model("sure", 2.0, kept=0.99, compression=4)
CLOSE = reports.model("close", 1.95, kept=0.98)
LOSSY = reports.model("lossy", 4.0, kept=0.7, compression=2)
SLOW = reports.model("slow", 0.5, kept=0.99)


def benchmark() -> BenchmarkReport:
    return report(BASE, SHOWN, LOSSY, warnings=["others took </script> the processor & more"])


def test_the_page_loads_nothing() -> None:
    page = html_page(benchmark())
    assert "default-src 'none'" in page and not re.search(r'(src|href)="(?!data:)', page)
    assert page.count("<img") == 1 and "Use sure: it is" in page
    assert "<script" not in page and "&lt;/script&gt; the processor &amp; more" in page


QUICK = reports.model("quick", 3.0, agreement=False, scores=False)
VERDICTS = {
    "one is shown to keep enough": (BASE, SHOWN, LOSSY, SLOW),
    "two can't be told apart": (BASE, SHOWN, CLOSE),
    "all lost much": (BASE, LOSSY),
    "too few items": (BASE, reports.model("open", 2.0, kept=0.96)),
    "none is faster": (BASE, SLOW),
    "nothing scored": (UNSCORED, QUICK),
    "predictions alone": (UNSCORED, reports.model("quick", 3.0, kept=0.9, scores=False)),
    "alone": (BASE,),
}


def test_the_verdict_says_what_is_shown_and_no_more(stored) -> None:
    stored(
        verdicts={name: verdict(report(*models)) for name, models in VERDICTS.items()},
        with_the_number_of_items=verdict(report(*VERDICTS["too few items"]), 120),
        of_each_model=model_verdicts(report(BASE, SHOWN, SLOW)),
        document=document(benchmark()),
    )


def text_of(page: str) -> str:
    """The words of a page, a line for each element that has any."""
    body = re.sub(r"<(style|script)\b.*?</\1>", "", page, flags=re.DOTALL)
    return "\n".join(line.strip() for line in re.sub(r"<[^>]*>", "\n", body).splitlines() if line.strip())


def test_pages_of_all_that_was_measured(stored) -> None:
    table = studies(reports.study("DistilBERT", 1.5), reports.study("TinyBERT", why="it has another shape"))
    page = html_page(table)
    without = html_page(report(UNSCORED, QUICK))
    assert "<img" not in without
    asked = benchmark_shown.Asked("bertscope benchmark --pairs pairs.tsv", "29 November 2026", ["pairs.tsv: 120 pairs"], 120)
    stored(models=text_of(html_page(benchmark(), asked)), studies=text_of(page), without_quality=text_of(without))


EMBEDDED = report(
    reports.model("base", scores=False),
    reports.model("near", 2.0, kept=0.9, vectors=True, scores=False),
    reports.model("wide", 1.5, kept=0.8, vectors=True, cosine=None, scores=False),
)


def test_vectors_that_moved(stored) -> None:
    stored(
        models=[EMBEDDED.model(name).vectors for name in ("base", "near", "wide")],
        frame=EMBEDDED.to_pandas(),
        columns_of_predictions=list(report(reports.model("base"), reports.model("small", 2.0)).to_pandas()),
        printed=shown(EMBEDDED, 140),
        latex=benchmark_files.latex(EMBEDDED),
        verdict=verdict(EMBEDDED),
        figure=workbench.plot_benchmark(EMBEDDED),
    )
