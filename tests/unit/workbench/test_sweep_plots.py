"""Figures of sweeps and rankings show the numbers, and better apart from worse."""

from dataclasses import replace

import bertscope
import numpy as np
import pytest
from bertscope import HeadEffect, SweepStart, SweepTable
from bertscope_workbench.plots.sweeps import FAINT_SHARE
from bertscope_workbench.plots.theme import DARK, LIGHT
from matplotlib.colors import to_hex, to_rgb

from tests.support.swept_tables import HEADS, SUMMARY, curve, metric_effect, ranking, table_of


def test_a_sweep_over_heads_is_a_heat_map():
    figure = bertscope.plot_sweep(HEADS)
    axes = figure.axes[0]
    image = axes.images[0]
    np.testing.assert_array_equal(np.ma.getmaskarray(image.get_array()), [[False, True], [False, False]])
    np.testing.assert_allclose(image.get_array().filled(0), [[0.4, 0], [0.05, -0.4]])
    low, high = image.get_clim()
    assert (low, high) == (-0.4, 0.4)
    assert not axes.yaxis_inverted()  # The first layer is at the bottom.
    assert (axes.get_ylabel(), [label.get_text() for label in axes.get_xticklabels()]) == ("layer", ["0", "1"])
    marked = {(line.get_xdata()[0], line.get_ydata()[0]) for line in axes.lines}
    assert marked == {(0, 0), (1, 1)}
    assert "baseline accuracy: 0.5, 7 items" in figure.get_suptitle()
    assert r"models/\$m\$" in figure.get_suptitle()
    assert figure.axes[1].get_ylabel() == "difference in accuracy; blue is better"


def test_better_is_blue_whichever_way_the_metric_goes():
    for metric, better in (("accuracy", 0.4), ("loss", -0.4)):
        image = bertscope.plot_sweep(HEADS, metric).axes[0].images[0]
        red, _, blue, _ = image.to_rgba(better)
        worse_red, _, worse_blue, _ = image.to_rgba(-better)
        assert blue > red
        assert worse_red > worse_blue


def test_a_divergence_has_no_better_and_no_marks():
    figure = bertscope.plot_sweep(table_of({(0, 0): 0.4, (0, 1): 0.2}, "divergence"))
    assert figure.axes[0].images[0].get_clim() == (0, 0.4)
    assert len(figure.axes[0].lines) == 0
    assert figure.axes[1].get_ylabel() == "divergence (nats)"
    assert "baseline" not in figure.get_suptitle()


def test_a_sweep_over_layers_is_bars_with_intervals():
    figure = bertscope.plot_sweep(table_of({(0, 0, 1): 0.4, (1, 0, 1): -0.4, (2, 0, 1): 0.05}, scope="layers"))
    axes = figure.axes[0]
    np.testing.assert_allclose([bar.get_height() for bar in axes.patches], [0.4, -0.4, 0.05])
    assert len({bar.get_facecolor() for bar in axes.patches}) == 3
    assert axes.get_xlabel() == "layer"
    (intervals,) = (collection for collection in axes.collections if len(collection.get_segments()) == 3)
    np.testing.assert_allclose(intervals.get_segments()[0][:, 1], [0.3, 0.5])


def test_sets_of_heads_are_bars_with_their_names():
    axes = bertscope.plot_sweep(table_of({(0, 0, 1): 0.4, (1, 2): -0.4}, scope="sets")).axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0:0,1", "1:2"]


def test_long_names_are_cut():
    table = table_of({(0, *range(12)): 0.1, (1, 2): 0.1}, scope="sets")
    labels = [label.get_text() for label in bertscope.plot_sweep(table).axes[0].get_xticklabels()]
    assert labels == ["0:0,1,2,3,4,5,6,7...", "1:2"]


def test_without_an_interval_there_is_no_mark_of_one():
    effects = tuple(HeadEffect({layer: (0, 1)}, {"accuracy": metric_effect("accuracy", 0.1, None)}) for layer in (0, 1))
    table = SweepTable("zero", "layers", SweepStart({"accuracy": 0.5}, 2, 1, 0, 0, 0), effects, (), SUMMARY)
    axes = bertscope.plot_sweep(table).axes[0]
    caps = [y for line in axes.lines if len(line.get_ydata()) == len(effects) for y in line.get_ydata() if y > 0]
    assert caps == []


@pytest.mark.parametrize("margin", [0.1, None])
def test_a_greedy_sweep_is_a_curve(margin):
    axes = bertscope.plot_sweep(curve(0, 0.25, 1, margin=margin)).axes[0]
    np.testing.assert_allclose(axes.lines[0].get_xdata(), [0, 25, 100])
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [0.5, 0.25, 0.1])
    band = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == pytest.approx((0.1 - (margin or 0), 0.5 + (margin or 0)))


def test_bands_axes_and_margins_end_where_scores_do():
    """An accuracy is no less than 0 and no more than 1, whatever an interval's formula says."""
    axes = bertscope.plot_sweep(curve(-0.4, 0.0, 0.4, margin=0.3)).axes[0]
    band = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == (0, 1)
    low, high = axes.get_ylim()
    assert 0 <= low < high <= 1
    axes = bertscope.plot_sweep(table_of({(0, 0, 1): 0.45, (1, 0, 1): -0.45}, scope="layers")).axes[0]
    (intervals,) = (collection for collection in axes.collections if len(collection.get_segments()) == 2)
    ends = np.array([segment[:, 1] for segment in intervals.get_segments()])
    np.testing.assert_allclose(ends, [[0.35, 0.5], [-0.5, -0.35]])
    assert axes.get_ylim()[0] >= -0.5 and axes.get_ylim()[1] <= 0.5
    axes = bertscope.plot_sweep(table_of({(0, 0, 1): 0.05, (1, 0, 1): 0.2}, "divergence", "layers")).axes[0]
    assert axes.get_ylim()[0] >= -0.5


def test_cells_whose_interval_holds_nought_are_faint():
    """Half of the colours of a sweep were noise."""
    image = bertscope.plot_sweep(HEADS).axes[0].images[0]
    np.testing.assert_array_equal(image.get_alpha(), [[1, 1], [FAINT_SHARE, 1]])
    assert 0 < FAINT_SHARE < 0.5
    without = HeadEffect({0: (0,)}, {"accuracy": metric_effect("accuracy", 0.4, None)})
    table = SweepTable("zero", "heads", SweepStart({"accuracy": 0.5}, 1, 4, 0, 0, 0), (without,), (), SUMMARY)
    assert bertscope.plot_sweep(table).axes[0].images[0].get_alpha() == FAINT_SHARE


def test_a_sweep_that_was_cut_short_says_so():
    assert "CUT SHORT: 3 of 3 are measured" in bertscope.plot_sweep(replace(HEADS, interrupted="gone")).get_suptitle()
    assert "CUT SHORT" not in bertscope.plot_sweep(HEADS).get_suptitle()


@pytest.mark.parametrize(("dark", "theme"), [(False, LIGHT), (True, DARK)], ids=["light", "dark"])
def test_light_and_dark_pages(dark, theme):
    layers = table_of({(0, 0, 1): 0.4, (1, 0, 1): -0.4}, scope="layers")
    figures = [bertscope.plot_sweep(table, dark=dark) for table in (HEADS, layers, curve(0, 0.5, 1))]
    for figure in [*figures, bertscope.plot_ranking(ranking(), dark=dark)]:
        axes = figure.axes[0]
        assert to_hex(figure.get_facecolor()) == to_hex(axes.get_facecolor()) == to_hex(theme.page)
        inked = [figure._suptitle, axes.xaxis.label, axes.yaxis.label, *axes.get_yticklabels()]
        assert {text.get_color() for text in inked} == {theme.ink}


@pytest.mark.parametrize("dark", [False, True])
def test_cells_look_different_from_heads_that_were_not_measured(dark):
    """Faint cells at the ends of the scale were as grey as these."""
    image = bertscope.plot_sweep(HEADS, dark=dark).axes[0].images[0]
    page = np.array(to_rgb((DARK if dark else LIGHT).page))
    missing = np.array(image.cmap.get_bad()[:3])
    for value in np.linspace(-0.4, 0.4, 41):
        color = image.cmap(image.norm(value))[:3]
        for opacity in (1, FAINT_SHARE):
            assert np.abs(opacity * np.array(color) + (1 - opacity) * page - missing).max() > 0.1


def test_a_ranking_is_a_heat_map():
    figure = bertscope.plot_ranking(ranking())
    np.testing.assert_array_equal(figure.axes[0].images[0].get_array(), ranking().importance)
    assert "loss 1.5, 7 items" in figure.get_suptitle()


def test_a_heat_map_of_nothing_but_zeros():
    assert bertscope.plot_sweep(table_of({(0, 0): 0.0})).axes[0].images[0].get_clim() == (-1, 1)


def test_a_metric_that_was_not_measured():
    with pytest.raises(KeyError, match="divergence"):
        bertscope.plot_sweep(HEADS, "divergence")


@pytest.mark.parametrize(("name", "begins"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("a.PDF", b"%PDF")])
def test_the_name_decides_the_kind(tmp_path, name, begins):
    bertscope.save_sweep(HEADS, tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(begins)
    bertscope.save_ranking(ranking(), tmp_path / name, title="$")
    assert (tmp_path / name).read_bytes().startswith(begins)


@pytest.mark.parametrize("name", ["a.html", "a", "png"])
def test_other_names_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match=r"must end with \.png, \.svg or \.pdf"):
        bertscope.save_sweep(HEADS, tmp_path / name)
    with pytest.raises(ValueError, match="must end with"):
        bertscope.save_ranking(ranking(), tmp_path / name)
