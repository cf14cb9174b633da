"""A figure of a benchmark shows speed-up against quality kept, and tells the baseline from the others."""

import math

import bertscope
from bertscope import BenchmarkReport
from bertscope.questions.benchmark import replies
from bertscope.v1 import benchmark_pb2
from matplotlib.text import Annotation

from tests.support import reports


def report(*models: benchmark_pb2.ModelReport) -> BenchmarkReport:
    message = benchmark_pb2.BenchmarkModelsResponse(report=reports.report(*models))
    return replies.benchmark_event(message)


BIG = reports.model("big", lengths=(32,))
SAME = reports.model("same", 1.01, lengths=(32,))
SMALL = reports.model("small", 2.0, kept=0.9, parameters=25_000_000, lengths=(32,))
REPORT = report(BIG, SAME, SMALL)


def test_an_interval_without_an_end_reaches_the_edge_and_moves_nothing_else():
    endless = reports.model("small", 2.0, kept=0.9, lengths=(32,))
    for score in endless.scores:
        score.retained.low, score.retained.high = 0, math.inf
    axes = bertscope.plot_benchmark(report(BIG, endless)).axes[0]
    assert axes.get_ylim()[1] < 200
    assert any(line.get_xdata()[0] == 2 and line.get_ydata()[1] > axes.get_ylim()[1] for line in axes.lines)


def test_figures(stored) -> None:
    both = reports.model("big"), reports.model("same", 1.01), reports.model("small", 2.0, kept=0.9, parameters=25_000_000)
    other = reports.model("other", 5.0, lengths=(32,), caveat="other runtime")
    message = reports.report(BIG, other, SMALL, warnings=["others took 63 % of the processor"])
    warned = replies.benchmark_event(benchmark_pb2.BenchmarkModelsResponse(report=message))
    bare = [reports.model("a", scores=False, lengths=(32,)), reports.model("b", 2.0, kept=0.97, scores=False, lengths=(32,))]
    lost, useless = reports.model("lost", 3.0, lengths=(32,)), reports.model("useless", 3.0, lengths=(32,))
    lost.scores[0].ClearField("retained")
    useless.scores[0].retained.CopyFrom(reports.ratio(0.0))
    stored(
        a_panel_for_each_length=bertscope.plot_benchmark(report(*both)),
        warned=bertscope.plot_benchmark(warned, dark=True),
        throughput=bertscope.plot_benchmark(REPORT, offline=True),
        agreement=bertscope.plot_benchmark(report(*bare), title="$"),
        without_a_quality=bertscope.plot_benchmark(report(BIG, lost)),
        of_no_quality=bertscope.plot_benchmark(report(BIG, useless)),
        far_apart=bertscope.plot_benchmark(report(BIG, reports.model("b", 77.0, lengths=(32,)))),
        nothing=lambda: bertscope.plot_benchmark(
            report(reports.model("a", scores=False), reports.model("b", 2.0, scores=False, agreement=False))
        ),
    )


def test_names_cover_neither_each_other_nor_leave_the_panel():
    near = [reports.model(f"a-rather-long-name-{n}", 1 + n / 50, kept=1 - n / 200, lengths=(32,)) for n in range(4)]
    (axes,) = bertscope.plot_benchmark(report(BIG, *near)).axes
    boxes = [child.get_window_extent() for child in axes.get_children() if isinstance(child, Annotation)]
    assert len(boxes) == 5
    assert not any(one.overlaps(other) for index, one in enumerate(boxes) for other in boxes[:index])
    assert all(axes.bbox.x0 <= box.x0 and box.x1 <= axes.bbox.x1 for box in boxes)
