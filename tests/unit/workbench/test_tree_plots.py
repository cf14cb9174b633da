"""Figures of trees show the scores of layers or heads, beside the trees that branch to one side."""

import bertscope
import numpy as np
import pytest
from bertscope import Provenance, TreeScores
from bertscope_workbench.plots.theme import DARK, LIGHT
from matplotlib.colors import to_hex

SOURCE = Provenance("models/$m$", "", "torch", "cpu", "fp32", {}, "zero_based")


def scores(directed, undirected, heads, words=100, previous=20, following=30):
    directed, undirected = np.array(directed), np.array(undirected)
    layers = tuple(range(2, 2 + len(directed)))
    return TreeScores(layers, heads, 9, 1, words, directed, undirected, previous, following, SOURCE)


LAYERS = scores([[10], [40], [35]], [[30], [60], [45]], ())
HEADS = scores([[10, 31, 30], [40, 5, 0]], [[51, 50, 40], [60, 5, 0]], (0, 1, 2))


def test_layers_are_points_beside_the_baselines():
    figure = bertscope.plot_trees(LAYERS)
    (axes,) = figure.axes
    drawn = {line.get_label(): line.get_ydata() for line in axes.lines}
    np.testing.assert_allclose(drawn["governor found"], [10, 40, 35])
    np.testing.assert_allclose(drawn["linked either way"], [30, 60, 45])
    assert [set(drawn[f"branching to the {side}, governor found"]) for side in ("right", "left")] == [{20.0}, {30.0}]
    assert set(drawn["either tree, linked either way"]) == {50.0}
    assert [label.get_text() for label in axes.get_xticklabels()] == ["2", "3", "4"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(drawn)
    title = figure.get_suptitle().replace("\n", " ")
    assert r"models/\$m\$, 9 texts, 100 words" in title
    assert "to the right: 20.0 %, to the left: 30.0 %, linked either way: 50.0 %" in title


def test_heads_are_heat_maps_with_dots_above_the_baselines():
    figure = bertscope.plot_trees(HEADS)
    undirected, directed = (axes for axes in figure.axes if axes.get_label() != "<colorbar>")
    np.testing.assert_allclose(undirected.images[0].get_array(), HEADS.undirected)
    np.testing.assert_allclose(directed.images[0].get_array(), HEADS.directed)
    dots = [set(zip(*axes.lines[0].get_data(), strict=True)) for axes in (undirected, directed)]
    assert dots == [{(0, 0), (0, 1)}, {(1, 0), (0, 1)}]  # Head, row of the layer.
    assert not undirected.yaxis_inverted()
    assert "a dot: above it" in figure.get_suptitle().replace("\n", " ")


@pytest.mark.parametrize("found", [LAYERS, HEADS], ids=["layers", "heads"])
@pytest.mark.parametrize(("dark", "theme"), [(False, LIGHT), (True, DARK)], ids=["light", "dark"])
def test_light_and_dark_pages(found, dark, theme):
    figure = bertscope.plot_trees(found, dark=dark, title="mine")
    assert to_hex(figure.get_facecolor()) == to_hex(theme.page)
    assert figure.get_suptitle() == "mine"
    assert {label.get_color() for label in figure.axes[0].get_yticklabels()} == {theme.ink}


@pytest.mark.parametrize(("layers", "heads"), [(1, 1), (24, 16), (24, 0)])
def test_figures_are_written_at_every_size(tmp_path, layers, heads):
    values = np.arange(layers * max(1, heads)).reshape(layers, -1)
    bertscope.save_trees(scores(values, values, tuple(range(heads)), 400), tmp_path / "trees.svg")
    assert (tmp_path / "trees.svg").stat().st_size > 5000


def test_without_a_tree_there_is_nothing_to_draw(tmp_path):
    with pytest.raises(bertscope.InvalidArgument, match="nothing to draw"):
        bertscope.save_trees(scores([[0]], [[0]], (), 0, 0, 0), tmp_path / "trees.png")
    with pytest.raises(ValueError, match=r"\.png"):
        bertscope.save_trees(LAYERS, tmp_path / "trees.gif")
