"""Geometry of hidden states against its definition: brute force over all pairs of vectors, from transformers' states."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from bertscope_service.analyses.geometry import Geometry, GeometryPlan, GeometryQuery
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


def plan_of(subject: Subject, layers: Sequence[int] = (), **changed: object) -> GeometryPlan:
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


def vectors_of(
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


def check(subject: Subject, plan: GeometryPlan, found: Geometry, states: Sequence[Sequence[torch.Tensor]]) -> None:
    for index, layer in enumerate(plan.query.layers):
        vectors, names = vectors_of(subject, plan, layer, states)
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
    plan = plan_of(subject, **changed)
    states = [list(subject.reference.run([text.sequence]).hidden) for text in plan.texts]
    rows = [[layer[0] for layer in text] for text in states]
    for batch in (6, 1):
        check(subject, plan, described(plan, encoder, batch=batch), rows)
