"""Geometry and CKA of hidden states against their definitions: brute force over all pairs of vectors, and HSIC as an average
over all quadruples, from transformers' states."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from bertscope_service.analyses.geometry import Geometry, GeometryPlan, GeometryQuery
from bertscope_service.analyses.representation_comparison import (
    Extent,
    RepresentationPlan,
    RepresentationQuery,
    SimilaritySums,
    common_words,
    hsic,
)
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import Edits
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
    (SENTENCES[0], "Cat"),
)


def geometry_plan(subject: Subject, layers: Sequence[int] = (), **changed: object) -> GeometryPlan:
    fields: dict[str, object] = {
        "inputs": INPUTS,
        "layers": tuple(layers) or tuple(range(subject.encoder.shape.layers + 1)),
        "pieces": False,
        "special_tokens": False,
        "words": ("cat", "zebra", "THE"),
        "second_moments": True,
        "truncate": True,
    }
    return GeometryPlan(GeometryQuery(**{**fields, **changed}), subject.tokenizer, subject.encoder.shape.hidden_size)  # type: ignore[arg-type]


def described(plan: GeometryPlan, encoder: Encoder, gates: Edits | None = None, *, batch: int = len(INPUTS)) -> Geometry:
    return plan.describe(run_rows(encoder, plan.rows, gates, batch=batch))


def vectors_and_words(
    subject: Subject, plan: GeometryPlan, layer: int, states: Sequence[Sequence[torch.Tensor]]
) -> tuple[list[NDArray[np.float64]], list[list[str]]]:
    """The vectors of each text, and the word of each; states: of each text, after each layer."""
    vectors, names = [], []
    for text, all_layers in zip(plan.texts, states, strict=True):
        hidden = all_layers[layer].double().numpy()
        groups: dict[tuple[object, ...], list[int]] = {}
        for place, piece in enumerate(text.pieces(subject.tokenizer)):
            if piece.special and not plan.query.special_tokens:
                continue
            alone = plan.query.pieces or piece.special
            groups.setdefault((place,) if alone else (piece.segment, piece.word), []).append(place)
        pieces = text.pieces(subject.tokenizer)
        vectors.append(np.stack([hidden[places].mean(axis=0) for places in groups.values()]))
        names.append(
            [
                "" if pieces[g[0]].special else text.texts[pieces[g[0]].segment][pieces[g[0]].start : pieces[g[-1]].end].strip()
                for g in groups.values()
            ]
        )
    return vectors, names


def check_geometry(subject: Subject, plan: GeometryPlan, found: Geometry, states: Sequence[Sequence[torch.Tensor]]) -> None:
    for index, layer in enumerate(plan.query.layers):
        vectors, names = vectors_and_words(subject, plan, layer, states)
        every = np.concatenate(vectors)
        unit = every / np.linalg.norm(every, axis=1, keepdims=True)
        sums = found.layers[index]
        assert sums.layer == layer
        np.testing.assert_allclose(sums.directions, unit.sum(0), atol=1e-4)
        np.testing.assert_allclose(sums.direction_squares, (unit**2).sum(0), atol=1e-4)
        np.testing.assert_allclose(sums.components, every.sum(0), atol=1e-3)
        np.testing.assert_allclose(sums.norms, np.linalg.norm(every, axis=1).sum(), rtol=1e-5)
        np.testing.assert_allclose(sums.norm_squares, (every**2).sum(), rtol=1e-5)
        cosines = [
            (one / np.linalg.norm(one, axis=1, keepdims=True)) @ one.mean(0) / np.linalg.norm(one.mean(0))
            for one in vectors
            if len(one) > 1
        ]
        means = np.array([one.mean() for one in cosines])
        assert sums.similarities == pytest.approx(means.sum(), abs=1e-4)
        assert sums.similarity_squares == pytest.approx((means**2).sum(), abs=1e-4)
        directions = [one / np.linalg.norm(one, axis=1, keepdims=True) for one in vectors]
        within = np.sum([one.sum(0) ** 2 for one in directions], axis=0)
        np.testing.assert_allclose(sums.text_direction_squares, within, rtol=1e-4, atol=1e-3)
        pairs = [(one @ one.T)[~np.eye(len(one), dtype=bool)].mean() for one in directions if len(one) > 1]
        assert sums.pair_similarities == pytest.approx(sum(pairs), abs=1e-4)
        assert plan.squared_vectors == sum(len(one) ** 2 for one in vectors)
        if plan.query.second_moments:
            assert sums.moments is not None
            np.testing.assert_allclose(sums.moments, every.T @ every, atol=1e-3 * float(np.abs(every).max()) ** 2)
        flat = [name for one in names for name in one]
        for word, name in enumerate(plan.query.words):
            chosen = [place for place, other in enumerate(flat) if other.casefold() == name.casefold()]
            assert (word in found.words) == bool(chosen)
            if chosen:
                assert found.words[word].vectors == len(chosen)
                np.testing.assert_allclose(found.words[word].directions[index], unit[chosen].sum(0), atol=1e-4)


@pytest.mark.parametrize("changed", [{}, {"pieces": True, "special_tokens": True}], ids=["words", "pieces"])
def test_sums_are_their_definitions(subject: Subject, changed: dict[str, bool], encoder: Encoder) -> None:
    plan = geometry_plan(subject, **changed)
    states = [list(subject.reference.run([text.sequence]).hidden) for text in plan.texts]
    rows = [[layer[0] for layer in text] for text in states]
    for batch in (6, 1):
        check_geometry(subject, plan, described(plan, encoder, batch=batch), rows)


COMPARED: tuple[tuple[str, str | None], ...] = (
    (SENTENCES[0], None),
    (SENTENCES[1], SENTENCES[3]),
    ("cat", None),
    (SENTENCES[2], "The CAT."),
    (SENTENCES[7], None),
)
Array = NDArray[np.float64]


def plan_of(subject: Subject, **changed: object) -> RepresentationPlan:
    every = tuple(range(subject.encoder.shape.layers + 1))
    fields = {"inputs": COMPARED, "layers": every, "other_layers": every, "twice": False, "truncate": True}
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


def test_cka_is_its_definition(subject: Subject, encoder: Encoder) -> None:
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
