"""CKA of layers against its definition: HSIC as an average over all quadruples, from transformers' states."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from bertscope_service.analyses.representation_comparison import (
    Extent,
    RepresentationPlan,
    RepresentationQuery,
    SimilaritySums,
    common_words,
    hsic,
)
from bertscope_service.encoders.base import Encoder
from numpy.typing import NDArray

from tests.support.reference import Subject
from tests.support.runner import run_rows
from tests.support.tiny import SENTENCES

INPUTS: tuple[tuple[str, str | None], ...] = (
    (SENTENCES[0], None),
    (SENTENCES[1], SENTENCES[3]),
    ("cat", None),
    (SENTENCES[2], "The CAT."),
    (SENTENCES[7], None),
)
Array = NDArray[np.float64]


def plan_of(subject: Subject, **changed: object) -> RepresentationPlan:
    every = tuple(range(subject.encoder.shape.layers + 1))
    fields = {"inputs": INPUTS, "layers": every, "other_layers": every, "twice": False, "truncate": True}
    return RepresentationPlan(RepresentationQuery(**{**fields, **changed}), subject.tokenizer, subject.tokenizer)  # type: ignore[arg-type]


def compared(plan: RepresentationPlan, encoder: Encoder, batch: int = 5) -> SimilaritySums:
    total = SimilaritySums.zeros(len(plan.query.layers), len(plan.query.other_layers))
    for group in plan.groups:
        products = run_rows(encoder, plan.first(group), batch=batch)
        total += plan.sums(products, run_rows(encoder, plan.second(group), batch=batch) if plan.query.twice else products)
    return total


def unbiased(left: Array, right: Array) -> Array:
    """HSIC_1 of Song et al. 2012, equation 5, between vectors [layers, n, size] of each two layers, without any centring."""
    found = np.zeros((len(left), len(right)))
    count = left.shape[1]
    ones = np.ones(count)
    for (i, x), (j, y) in itertools.product(enumerate(left), enumerate(right)):
        k, m = x @ x.T, y @ y.T
        np.fill_diagonal(k, 0)
        np.fill_diagonal(m, 0)
        whole = np.trace(k @ m) + (ones @ k @ ones) * (ones @ m @ ones) / ((count - 1) * (count - 2))
        found[i, j] = (whole - 2 / (count - 2) * (ones @ k @ m @ ones)) / (count * (count - 3))
    return found


def words_of_states(subject: Subject, plan: RepresentationPlan, states: Sequence[torch.Tensor], index: int) -> Array:
    """The vectors of a text's words, [layers, words, size]; states: after each layer, [1, tokens, size]."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for place, piece in enumerate(plan.texts[index].pieces(subject.tokenizer)):
        if not piece.special:
            groups.setdefault((piece.segment, piece.word), []).append(place)
    hidden = np.stack([one[0].double().numpy() for one in states])
    return np.stack([hidden[:, places].mean(axis=1) for places in groups.values()], axis=1)


def expected_sums(subject: Subject, plan: RepresentationPlan) -> Array:
    total = np.zeros((len(plan.query.layers), len(plan.query.other_layers)))
    for index, text in enumerate(plan.texts):
        vectors = words_of_states(subject, plan, list(subject.reference.run([text.sequence]).hidden), index)
        if vectors.shape[1] >= 4:
            total += unbiased(vectors[list(plan.query.layers)], vectors[list(plan.query.other_layers)])
    return total


def assert_close(found: Array, expected: Array) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * float(np.abs(expected).max()))


def test_sums_are_their_definition(subject: Subject, encoder: Encoder) -> None:
    plan = plan_of(subject)
    expected = expected_sums(subject, plan)
    assert len(plan.compared) >= 3
    for batch in (5, 1):
        found = compared(plan, encoder, batch)
        assert_close(found.shared, expected)
        assert_close(found.own, np.diag(expected))
        np.testing.assert_allclose(found.own, found.other, rtol=1e-12)
        np.testing.assert_allclose(np.diag(found.shared), found.own, rtol=1e-12)


def test_hsic_is_the_mean_over_quadruples_and_the_same_after_a_rotation() -> None:
    """HSIC_1 is the U-statistic with the kernel of Gretton et al. 2005: its definition without any shortcut."""
    random_numbers = np.random.default_rng(5)
    x, y = random_numbers.normal(1, 1, (6, 3)), random_numbers.normal(-1, 2, (6, 5))
    k, m = x @ x.T, y @ y.T
    terms = [k[a, b] * (m[a, b] + m[c, d] - 2 * m[a, c]) for a, b, c, d in itertools.permutations(range(6), 4)]
    rotation, _ = np.linalg.qr(random_numbers.normal(size=(5, 5)))

    def zeroed(vectors: Array) -> Array:
        products = vectors @ vectors.T
        np.fill_diagonal(products, 0)
        return products[None]

    for turned in (y, y @ rotation, y + 3):
        assert hsic(zeroed(x), zeroed(turned))[0, 0] == pytest.approx(np.mean(terms))


def test_words_that_are_cut_differently_are_joined() -> None:
    first = [Extent(0, 0, 3, (1,)), Extent(0, 3, 5, (2, 3)), Extent(0, 6, 9, (4,)), Extent(1, 0, 2, (6,))]
    second = [Extent(0, 0, 5, (0,)), Extent(0, 6, 7, (1,)), Extent(0, 7, 9, (2,)), Extent(0, 9, 12, (3,))]
    assert list(common_words(first, second)) == [((1, 2, 3), (0,)), ((4,), (1, 2))]
    assert list(common_words(first, first)) == [(word.places, word.places) for word in first]
