"""The classifier of attention maps on maps that are built to be of a class, with noise."""

import numpy as np
import pytest
import torch
from bertscope_service.analyses.attention_description import pattern_sums
from bertscope_service.analyses.attention_patterns import Pattern, features, scores
from bertscope_service.analyses.observers.attention_statistics import MapReduction, TokenKinds
from numpy.typing import NDArray

from tests.support.attention_definitions import built_maps


def numbers_of(texts: NDArray[np.int8], weights: NDArray[np.float64]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The numbers of a map, and of a uniform one of the same text."""
    tokens = TokenKinds(texts, np.zeros(len(texts), dtype=np.bool_))
    reduction = MapReduction([tokens], torch.device("cpu"))
    maps = torch.from_numpy(weights.astype(np.float32))[None, None]
    return reduction.numbers(maps)[0, 0].numpy(), reduction.uniform()[0].numpy()


@pytest.mark.slow
def test_agreement_with_maps_of_a_known_class() -> None:
    kinds, texts, maps = zip(*built_maps(3, 1), strict=True)
    numbers, uniform = (np.stack(parts) for parts in zip(*map(numbers_of, texts, maps), strict=True))
    found = scores(numbers, uniform).argmax(axis=-1)
    agrees = found == np.array([Pattern[kind] for kind in kinds])
    assert agrees.mean() >= 0.95
    assert min(agrees[np.array(kinds) == kind].mean() for kind in set(kinds)) >= 0.85


PAIR = np.array([-1, 0, 0, 0, 0, 0, -1, 1, 1, 1, 1, -1], dtype=np.int8)


@pytest.mark.parametrize(
    "texts", [PAIR, PAIR[:7], PAIR[1:6], np.array([-1, 0, -1], dtype=np.int8), np.array([0], dtype=np.int8)]
)
def test_uniform_attention_has_no_features(texts: NDArray[np.int8]) -> None:
    length = len(texts)
    numbers, uniform = numbers_of(texts, np.full((length, length), 1 / length))
    vertical, diagonal, own, _ = features(numbers, uniform)
    np.testing.assert_allclose([vertical, diagonal, own], 0, atol=1e-4)
    found = scores(numbers, uniform)
    assert found.argmax() == Pattern.HETEROGENEOUS
    assert found.max() == pytest.approx(1, abs=1e-3)


def test_scores_are_from_0_to_1_and_a_map_of_zeros_has_none() -> None:
    draw = np.random.default_rng(1)
    for texts in (PAIR, PAIR[:7], PAIR[1:6]):
        uniform = numbers_of(texts, np.full((len(texts), len(texts)), 1 / len(texts)))[1]
        for evenness in (0.01, 0.3, 10.0):
            numbers, _ = numbers_of(texts, draw.dirichlet(np.full(len(texts), evenness), size=len(texts)))
            found = scores(numbers, uniform)
            assert found.min() >= 0 and 0 < found.max() <= 1
        zeros, _ = numbers_of(texts, np.zeros((len(texts), len(texts))))
        assert not scores(zeros, uniform).any()
        sums = pattern_sums(np.stack([zeros, numbers])[:, None, None], np.stack([uniform, uniform]))
        assert sum(int(one.texts[0, 0]) for one in sums.values()) == 1
