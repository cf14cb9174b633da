"""Figures of trees show the scores of layers or heads, beside the trees that branch to one side."""

import bertscope
import numpy as np
from bertscope import Provenance, TreeScores

SOURCE = Provenance("models/$m$", "", "torch", "cpu", "fp32", {}, "zero_based")


def scores(directed, undirected, heads, words=100, previous=20, following=30):
    directed, undirected = np.array(directed), np.array(undirected)
    layers = tuple(range(2, 2 + len(directed)))
    return TreeScores(layers, heads, 9, 1, words, directed, undirected, previous, following, SOURCE)


LAYERS = scores([[10], [40], [35]], [[30], [60], [45]], ())
HEADS = scores([[10, 31, 30], [40, 5, 0]], [[51, 50, 40], [60, 5, 0]], (0, 1, 2))


def test_trees(stored) -> None:
    stored(
        layers=bertscope.plot_trees(LAYERS),
        dark_layers=bertscope.plot_trees(LAYERS, dark=True, title="mine"),
        heads=bertscope.plot_trees(HEADS),
        dark_heads=bertscope.plot_trees(HEADS, dark=True),
        nothing=lambda: bertscope.plot_trees(scores([[0]], [[0]], (), 0, 0, 0)),
    )


def test_a_large_figure_is_written(tmp_path):
    values = np.arange(24 * 16).reshape(24, 16)
    bertscope.save_trees(scores(values, values, tuple(range(16)), 400), tmp_path / "trees.svg")
    assert (tmp_path / "trees.svg").stat().st_size > 5000
