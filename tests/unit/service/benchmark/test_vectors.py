"""How alike two models' vectors of the same texts are: the numbers by another way, and intervals that hold the truth."""

import numpy as np
import pytest
from bertscope_service.analyses.metrics import Bootstrap
from bertscope_service.benchmark.vectors import Compared, VectorAgreement, nearest
from numpy.typing import NDArray
from scipy.stats import spearmanr

FEW = Bootstrap(resamples=400)
Vectors = NDArray[np.float64]


def unit(vectors: Vectors) -> Vectors:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def drawn(seed: int, texts: int, noise: float) -> tuple[Vectors, Vectors]:
    """Vectors in a cone, as those of texts are, and the same with noise that is larger for some texts."""
    generator = np.random.default_rng([seed, texts, int(10 * noise)])
    first = 1 + generator.normal(size=(texts, 16))
    moved = noise * np.exp(0.5 * generator.normal(size=(texts, 1))) * generator.normal(size=first.shape)
    return unit(first), unit(first + moved)


def compared(first: Vectors, second: Vectors, k: int = 5, bootstrap: Bootstrap = FEW) -> VectorAgreement:
    both = Compared(first, second, k)
    for begin in range(0, len(first), 7):
        both.add(range(len(first))[begin : begin + 7])
    return both.agreement(bootstrap)


def by_another_way(first: Vectors, second: Vectors, k: int) -> tuple[float, float]:
    """The share of common neighbours and Spearman's correlation, by all pairs of texts at once and by scipy."""
    shared, correlations = [], []
    for text in range(len(first)):
        others = [other for other in range(len(first)) if other != text]
        one, two = first[others] @ first[text], second[others] @ second[text]
        shared.append(len({*one.argsort()[-k:].tolist()} & {*two.argsort()[-k:].tolist()}) / k)
        correlations.append(spearmanr(one, two).statistic)
    return float(np.mean(shared)), float(np.mean(correlations))


def test_neither_axes_nor_sizes_count_for_neighbours() -> None:
    first, _ = drawn(2, 30, 0.5)
    turn, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(20, 16)))
    found = compared(first, first @ turn.T)
    assert found.cosine is None
    assert (found.neighbours.value, found.neighbours.low, found.neighbours.high) == (1, 1, 1)
    assert found.rank_correlation.value == pytest.approx(1)


def test_the_same_vectors_agree_fully_and_few_texts_tell_nothing() -> None:
    first, second = drawn(3, 4, 0.5)
    same = compared(first, first, 2)
    for mean in (same.cosine, same.neighbours, same.rank_correlation):
        assert mean is not None
        assert mean.value == pytest.approx(1)
        assert mean.high <= 1
    few = compared(first, second, 2)
    assert few.cosine is not None
    assert (few.cosine.low, few.cosine.high) == (few.rank_correlation.low, few.rank_correlation.high) == (-1, 1)
    assert (few.neighbours.low, few.neighbours.high) == (0, 1)


def test_a_model_that_gives_all_texts_one_vector() -> None:
    first, _ = drawn(4, 10, 0.5)
    found = compared(first, unit(np.ones((10, 16))))
    assert (found.rank_correlation.value, found.rank_correlation.low, found.rank_correlation.high) == (0, 0, 0)


def test_the_nearest_leave_the_text_out_and_equal_ones_are_in_order() -> None:
    assert nearest(np.array([0.5, 1.0, 0.7, 0.7, 0.9]), 1, 3) == [4, 2, 3]
    assert nearest(np.array([0.5, 0.1, 0.7]), 1, 2) == [2, 0]


@pytest.mark.slow
def test_the_influence_is_that_of_leaving_a_text_out() -> None:
    """Pseudo-values of the neighbours by comparing without each text; those of the correlation to the first order."""
    texts, k = 25, 3
    first, second = drawn(5, texts, 0.5)
    both = Compared(first, second, k)
    both.add(range(texts))
    shared, correlation = by_another_way(first, second, k)
    kept = [np.delete(np.arange(texts), text) for text in range(texts)]
    without = np.array([by_another_way(first[some], second[some], k) for some in kept])
    moved = (texts - 1) * (without.mean(axis=0) - without)
    neighbours, ranks = both.values()
    assert (neighbours.mean(), ranks.mean()) == (pytest.approx(shared), pytest.approx(correlation))
    assert neighbours - shared == pytest.approx(moved[:, 0])
    assert np.corrcoef(ranks, moved[:, 1])[0, 1] > 0.97
    assert ranks.std() == pytest.approx(moved[:, 1].std(), rel=0.15)
