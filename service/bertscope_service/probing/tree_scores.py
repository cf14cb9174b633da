"""Scores predicted distances and depths of words by the trees of their texts (Hewitt and Manning 2019, section 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.tree_probes import Tree
from bertscope_service.probing.blocks import Block, placed

SHORTEST, LONGEST = 5, 50
"""Words of the texts that correlations are of."""


@dataclass(frozen=True, slots=True, eq=False)
class TreeScore:
    """Scores of probes, [layers, seeds] each; see bertscope.v1.StructuralScore. correct: int64; the others float64."""

    correct: NDArray[np.int64]
    spearman: NDArray[np.float64]
    loss: NDArray[np.float64]


class Tally:
    """Adds up the scores of probes, `shape` of them, text by text."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self._correct = np.zeros(shape, dtype=np.int64)
        self._loss = np.zeros(shape)
        self._texts = 0
        self._by_length: dict[int, tuple[int, NDArray[np.float64]]] = {}

    def add(self, tree: Tree, predicted: NDArray[np.float32], gold: NDArray[np.float32]) -> None:
        """Adds a text. predicted: [layers, seeds, words, words] or [layers, seeds, words]; gold: without layers and seeds."""
        flat = predicted.reshape(-1, *gold.shape)
        found = correct_edges(tree, flat) if gold.ndim == 2 else correct_root(tree, flat)
        self._correct += found.reshape(self._correct.shape)
        self._loss += np.abs(flat - gold).mean(axis=tuple(range(1, flat.ndim))).reshape(self._loss.shape)
        self._texts += 1
        if SHORTEST <= len(tree) <= LONGEST:
            texts, total = self._by_length.get(len(tree), (0, np.zeros(self._loss.shape)))
            correlations = spearman(flat, gold)
            means = correlations.mean(axis=1) if gold.ndim == 2 else correlations
            self._by_length[len(tree)] = texts + 1, total + means.reshape(total.shape)

    def score(self) -> TreeScore:
        """Returns the scores of all texts added, at least one."""
        means = [total / texts for texts, total in self._by_length.values()]
        correlation = np.mean(means, axis=0) if means else np.zeros(self._loss.shape)
        return TreeScore(self._correct, correlation, self._loss / self._texts)


def whole_score(parts: Sequence[Block], scores: Sequence[TreeScore]) -> TreeScore:
    """Returns the score of all probes from those of the blocks that they were divided into."""
    correct, spearmans, losses = zip(*((one.correct, one.spearman, one.loss) for one in scores), strict=True)
    return TreeScore(placed(parts, correct), placed(parts, spearmans), placed(parts, losses))


def total(trees: Sequence[Tree], *, distances: bool) -> int:
    """Returns the number of edges, or of roots, that there are to find."""
    return sum(len(tree.edges) if distances else tree.root is not None for tree in trees)


def correlated(trees: Sequence[Tree]) -> int:
    """Returns the number of texts that correlations are of."""
    return sum(SHORTEST <= len(tree) <= LONGEST for tree in trees)


def correct_edges(tree: Tree, distances: NDArray[np.float32]) -> NDArray[np.int64]:
    """Counts the edges of a tree that the minimum spanning trees of its words without punctuation have.

    distances: [maps, words, words]. Returns int64 [maps].
    """
    chosen = np.flatnonzero(~tree.punctuation)
    place = np.full(len(tree), -1)
    place[chosen] = np.arange(len(chosen))
    first, second = place[tree.edges].T
    if not len(first):
        return np.zeros(len(distances), dtype=np.int64)
    links = spanning_trees(distances[:, chosen[:, None], chosen])
    found: NDArray[np.int64] = ((links[:, first] == second) | (links[:, second] == first)).sum(axis=1)
    return found


def correct_root(tree: Tree, depths: NDArray[np.float32]) -> NDArray[np.int64]:
    """Returns whether the word with the least depth of those that are no punctuation is the root, int64 [maps]."""
    if tree.root is None:
        return np.zeros(len(depths), dtype=np.int64)
    least = np.where(tree.punctuation, np.inf, depths).argmin(axis=1)
    found: NDArray[np.int64] = (least == tree.root).astype(np.int64)
    return found


def spanning_trees(distances: NDArray[np.float32]) -> NDArray[np.int64]:
    """Finds minimum spanning trees by Prim's algorithm, all maps side by side.

    distances: [maps, words, words]. Returns the word that each one was linked to, int64 [maps, words]; -1 of the first one.
    """
    maps, words = np.arange(len(distances)), distances.shape[1]
    links = np.zeros((len(maps), words), dtype=np.int64)
    links[:, 0] = -1
    outside = np.ones(links.shape, dtype=np.bool_)
    outside[:, 0] = False
    nearest = distances[:, 0].astype(np.float64)
    for _ in range(words - 1):
        new = np.where(outside, nearest, np.inf).argmin(axis=1)
        outside[maps, new] = False
        closer = outside & (distances[maps, new] < nearest)
        nearest = np.where(closer, distances[maps, new], nearest)
        links = np.where(closer, new[:, None], links)
    return links


def import_scipy() -> None:
    """Imports what `spearman` needs: up to a second, in which a device's thread would run nobody's batches, and of which a
    server's start is spared."""
    import scipy.stats  # noqa: F401


def spearman(predicted: NDArray[np.float32], gold: NDArray[np.float32]) -> NDArray[np.float64]:
    """Returns Spearman's correlations over the last dimension, ties sharing their mean rank; 0 where one side is constant."""
    from scipy.stats import rankdata  # as `import_scipy` says

    ranks = (rankdata(values, axis=-1) for values in (predicted, gold))
    first, second = (values - values.mean(axis=-1, keepdims=True) for values in ranks)
    scale = np.sqrt((first**2).sum(axis=-1) * (second**2).sum(axis=-1))
    products: NDArray[np.float64] = (first * second).sum(axis=-1)
    found: NDArray[np.float64] = np.divide(products, scale, out=np.zeros_like(products), where=scale > 0)
    return found
