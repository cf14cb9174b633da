"""A figure of a benchmark shows speed-up against quality kept, and tells the baseline from the others."""

import math

import bertscope
import pytest
from bertscope import BenchmarkReport
from bertscope.questions.benchmark import replies
from bertscope.v1 import benchmark_pb2
from matplotlib.colors import to_rgba
from matplotlib.text import Annotation

from tests.support import reports


def report(*models: benchmark_pb2.ModelReport) -> BenchmarkReport:
    message = benchmark_pb2.BenchmarkModelsResponse(report=reports.report(*models))
    return replies.benchmark_event(message)


BIG = reports.model("big", lengths=(32,))
SAME = reports.model("same", 1.01, lengths=(32,))
SMALL = reports.model("small", 2.0, kept=0.9, parameters=25_000_000, lengths=(32,))
REPORT = report(BIG, SAME, SMALL)


def annotations(axes):
    return [child for child in axes.get_children() if isinstance(child, Annotation)]


def test_a_panel_for_each_length_and_a_dot_for_each_model():
    both = reports.model("big"), reports.model("same", 1.01), reports.model("small", 2.0, kept=0.9, parameters=25_000_000)
    figure = bertscope.plot_benchmark(report(*both))
    assert [axes.get_title() for axes in figure.axes] == ["32 tokens", "128 tokens"]
    for axes in figure.axes:
        assert [scatter.get_offsets()[0].tolist() for scatter in axes.collections] == [
            pytest.approx([1, 100]),
            pytest.approx([1.01, 100]),
            pytest.approx([2, 90]),
        ]
        large, _, small = (scatter.get_sizes()[0] for scatter in axes.collections)
        assert small / large == pytest.approx(0.25)
        assert axes.get_xlabel() == "speed-up, one sequence at a time (times)"
    assert figure.axes[0].get_ylabel() == "accuracy kept, % of the baseline's"
    assert "against models/big" in figure.get_suptitle()


def test_the_baseline_and_what_is_not_distinguishable_look_different():
    big, same, small = bertscope.plot_benchmark(REPORT).axes[0].collections
    edges = [tuple(scatter.get_edgecolor()[0]) for scatter in (big, same, small)]
    assert edges[0] != edges[1] == edges[2]
    assert (len(same.get_facecolor()), len(small.get_facecolor())) == (0, 1)
    assert tuple(small.get_facecolor()[0])[:3] == to_rgba(edges[2])[:3]


def test_a_caveat_stands_at_its_dot_and_warnings_above_all():
    other = reports.model("other", 5.0, lengths=(32,), caveat="other runtime")
    message = reports.report(BIG, other, SMALL, warnings=["others took 63 % of the processor"])
    found = replies.benchmark_event(benchmark_pb2.BenchmarkModelsResponse(report=message))
    figure = bertscope.plot_benchmark(found)
    assert figure.get_suptitle().startswith("Warning: others took 63 % of the processor\n")
    assert "noise only" in figure.get_supxlabel()
    (axes,) = figure.axes
    assert {name.get_text() for name in annotations(axes)} == {"big (baseline)", "other\nother runtime", "small"}
    styles = [scatter.get_linestyle()[0][1] for scatter in axes.collections]
    assert (styles[0], styles[2]) == (None, None)
    assert styles[1] is not None


def test_intervals_are_drawn_both_ways():
    axes = bertscope.plot_benchmark(REPORT).axes[0]
    lines = [(list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines]
    assert (pytest.approx([1.9, 2.1]), pytest.approx([90, 90])) in lines
    assert (pytest.approx([2, 2]), pytest.approx([88.2, 91.8])) in lines


def test_an_interval_without_an_end_reaches_the_edge_and_moves_nothing_else():
    endless = reports.model("small", 2.0, kept=0.9, lengths=(32,))
    for score in endless.scores:
        score.retained.low, score.retained.high = 0, math.inf
    axes = bertscope.plot_benchmark(report(BIG, endless)).axes[0]
    assert axes.get_ylim()[1] < 200
    assert any(line.get_xdata()[0] == 2 and line.get_ydata()[1] > axes.get_ylim()[1] for line in axes.lines)


def test_names_cover_neither_each_other_nor_leave_the_panel():
    near = [reports.model(f"a-rather-long-name-{n}", 1 + n / 50, kept=1 - n / 200, lengths=(32,)) for n in range(4)]
    figure = bertscope.plot_benchmark(report(BIG, *near))
    for axes in figure.axes:
        names = annotations(axes)
        assert {name.get_text() for name in names} == {"big (baseline)", *(f"a-rather-long-name-{n}" for n in range(4))}
        boxes = [name.get_window_extent() for name in names]
        assert not any(one.overlaps(other) for index, one in enumerate(boxes) for other in boxes[:index])
        assert all(axes.bbox.x0 <= box.x0 and box.x1 <= axes.bbox.x1 for box in boxes)


def test_throughput_instead_of_latency():
    axes = bertscope.plot_benchmark(REPORT, offline=True).axes[0]
    assert axes.collections[2].get_offsets()[0].tolist() == pytest.approx([4, 90])
    assert "in batches" in axes.get_xlabel()


def test_without_scores_agreement_is_the_quality():
    models = [reports.model("a", scores=False, lengths=(32,)), reports.model("b", 2.0, kept=0.7, scores=False, lengths=(32,))]
    figure = bertscope.plot_benchmark(report(*models), title="$")
    assert figure.axes[0].get_ylabel() == "same likeliest prediction, %"
    assert figure.axes[0].collections[1].get_offsets()[0].tolist() == pytest.approx([2, 70])
    assert figure.get_suptitle() == r"\$"


def test_a_model_without_a_quality_has_no_dot():
    lost = reports.model("lost", 3.0, lengths=(32,))
    lost.scores[0].ClearField("retained")
    axes = bertscope.plot_benchmark(report(BIG, lost)).axes[0]
    assert [name.get_text() for name in annotations(axes)] == ["big (baseline)"]


def test_far_apart_speeds_have_a_logarithmic_axis():
    axes = bertscope.plot_benchmark(report(BIG, reports.model("b", 77.0, lengths=(32,)))).axes[0]
    assert axes.get_xscale() == "log"
    assert bertscope.plot_benchmark(REPORT).axes[0].get_xscale() == "linear"
    low, high = axes.get_xlim()
    assert low < 1 < 77 < high
    assert not math.isinf(high)


def test_nothing_to_say_what_was_lost():
    models = reports.model("a", scores=False), reports.model("b", 2.0, scores=False, agreement=False)
    with pytest.raises(ValueError, match="measure them with an objective or agreement_texts"):
        bertscope.plot_benchmark(report(*models))


def test_a_figure_is_written(tmp_path):
    bertscope.save_benchmark(REPORT, tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_bytes().startswith(b"<?xml")


def test_other_names_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"must end with \.png, \.svg or \.pdf"):
        bertscope.save_benchmark(REPORT, tmp_path / "a.gif")


def test_the_axis_shows_no_quality_that_there_cannot_be():
    useless = reports.model("useless", 3.0, lengths=(32,))
    useless.scores[0].retained.CopyFrom(reports.ratio(0.0))
    axes = bertscope.plot_benchmark(report(BIG, useless)).axes[0]
    assert min(axes.get_yticks()) >= 0
    low, high = axes.get_ylim()
    assert -0.1 * (high - low) < low < 0
    agreeing = [
        reports.model("a", scores=False, lengths=(32,)),
        reports.model("b", 2.0, kept=0.97, scores=False, lengths=(32,)),
    ]
    axes = bertscope.plot_benchmark(report(*agreeing)).axes[0]
    assert max(axes.get_yticks()) <= 100
    assert 100 < axes.get_ylim()[1] < 101
