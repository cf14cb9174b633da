"""Scores of tokens with a feature, against transformers' own maps in float64."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bertscope_service.analyses.features import FeaturePlan, FeatureQuery, MarkedText
from bertscope_service.analyses.head_sums import SumsByKind
from bertscope_service.analyses.observers.columns import ColumnObserver, ColumnScores
from bertscope_service.analyses.words import Span
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import Edits
from bertscope_service.errors import InvalidArgument
from numpy.typing import NDArray

from tests.support.exports import load_exported
from tests.support.reference import EDITS, HeadEdits, Reference, Subject
from tests.support.relations import spans_of
from tests.support.subjects import on_three
from tests.support.tiny import SENTENCES

FEATURES = {"vowel": r"\b[aeiou]\w*", "the": r"\b[Tt]he\b", "end": r"[.?!]$", "none": r"qqq"}
"""Words with a feature."""

TEXTS: list[tuple[str, str | None]] = [
    *((text, None) for text in SENTENCES),
    (SENTENCES[1], SENTENCES[9]),
    (SENTENCES[6], SENTENCES[0]),
]


def marked(texts: tuple[str, str | None]) -> MarkedText:
    spans = [
        (feature, Span(*span))
        for feature, pattern in enumerate(FEATURES.values())
        for segment, text in enumerate(texts)
        for span in spans_of(text or "", segment, pattern)
    ]
    return MarkedText(texts, tuple(reversed(spans)))


def plan_of(subject: Subject, texts: Sequence[tuple[str, str | None]], *, special: bool = True) -> FeaturePlan:
    query = FeatureQuery(tuple(map(marked, texts)), tuple(FEATURES), special)
    return FeaturePlan(query, subject.tokenizer, subject.encoder.shape)


@torch.inference_mode()
def run(plan: FeaturePlan, encoder: Encoder, gates: Edits | None = None, *, alone: bool = False) -> list[ColumnScores]:
    """The plan's rows in one batch, or each alone."""
    batches = [[row] for row in plan.rows] if alone else [plan.rows]
    found: list[ColumnScores] = []
    for batch in batches:
        state = encoder.begin([sequence for sequence, _ in batch])
        observers: list[Any] = [observer for _, observer in batch]
        readout = ColumnObserver.run(encoder, state, encoder.place_edits([gates] * len(batch)), observers)
        found += readout.deal(tuple(tensor.numpy() for tensor in readout.tensors))
    return found


@pytest.fixture(scope="module")
def exact(subject: Subject) -> Reference:
    return Reference(subject.folder, torch.float64)


def expected(
    subject: Subject, reference: Reference, texts: tuple[str, str | None], edits: HeadEdits | None
) -> list[tuple[NDArray[np.float64], NDArray[np.float64]] | None]:
    """Of each feature, and of both special ones: the largest column mean, and the largest weight from the first token."""
    tokenized = subject.tokenizer.encode(*texts)
    sequence = tokenized.sequence
    outputs = reference.run_edited(sequence, edits) if edits else reference.run([sequence])
    maps = torch.cat(outputs.maps).double().numpy()
    pieces = tokenized.pieces(subject.tokenizer)
    groups = [
        [
            place
            for place, piece in enumerate(pieces)
            for start, end, segment in spans_of(texts[piece.segment] or "", piece.segment, pattern)
            if not piece.special and start <= piece.start < end
        ]
        for pattern in FEATURES.values()
    ]
    special = [place for place, piece in enumerate(pieces) if piece.special]
    assert special[0] == 0
    groups += [special[:1], special[1:]]
    return [
        (
            np.max([maps[:, :, :, token].mean(axis=2) for token in tokens], axis=0),
            np.max([maps[:, :, 0, token] for token in tokens], axis=0),
        )
        if tokens
        else None
        for tokens in groups
    ]


def check(
    subject: Subject,
    exact: Reference,
    found: tuple[SumsByKind, SumsByKind],
    edits: HeadEdits | None = None,
    *,
    special: bool = True,
) -> None:
    texts = [expected(subject, exact, text, edits) for text in TEXTS]
    for feature in range(len(FEATURES) + 2 * special):
        values = [scores for text in texts for scores in [text[feature]] if scores is not None]
        for sums, numbers in zip(found, zip(*values, strict=True) if values else ((), ()), strict=True):
            one = sums.of(feature)
            assert one.texts == len(values)
            count = max(len(values), 1)
            total = np.sum(numbers, axis=0) if values else np.zeros_like(one.sums)
            squares = np.sum(np.square(numbers), axis=0) if values else np.zeros_like(one.sums)
            np.testing.assert_allclose(one.sums / count, total / count, rtol=0, atol=1e-5)
            np.testing.assert_allclose(one.squares / count, squares / count, rtol=0, atol=1e-5)


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("special", [False, True])
def test_scores_are_those_of_the_definitions(subject: Subject, exact: Reference, alone: bool, special: bool) -> None:
    plan = plan_of(subject, TEXTS, special=special)
    check(subject, exact, plan.answer(run(plan, subject.encoder, alone=alone)), special=special)
    added = plan.names[len(FEATURES) :]
    pieces = subject.tokenizer.encode("a").pieces(subject.tokenizer)
    assert added == ([pieces[0].text, pieces[-1].text] if special else [])


@on_three
def test_scores_under_interventions(subject: Subject, exact: Reference) -> None:
    plan = plan_of(subject, TEXTS)
    check(subject, exact, plan.answer(run(plan, subject.encoder, subject.gates(EDITS["mixed"]))), EDITS["mixed"])


@on_three
def test_calls_add_up(subject: Subject) -> None:
    plan = plan_of(subject, TEXTS)
    whole = plan.answer(run(plan, subject.encoder, alone=True))
    parts = [plan_of(subject, TEXTS[begin : begin + 4]) for begin in range(0, len(TEXTS), 4)]
    found = [part.answer(run(part, subject.encoder, alone=True)) for part in parts]
    assert all(part.names == plan.names for part in parts)
    for kind in range(2):
        for name in ("texts", "sums", "squares"):
            merged = sum(getattr(sums[kind], name) for sums in found)
            np.testing.assert_allclose(merged, getattr(whole[kind], name), rtol=1e-12)


@pytest.mark.parametrize("name", ["bert", "modernbert"])
def test_both_runtimes_give_the_same(name: str, checkpoint: Callable[[str], Path], export_cache: Path) -> None:
    subject = Subject(name, checkpoint(name))
    exact, onnx = Reference(subject.folder, torch.float64), load_exported(subject.folder, export_cache)
    plan = plan_of(subject, TEXTS)
    check(subject, exact, plan.answer(run(plan, onnx)))
    check(subject, exact, plan.answer(run(plan, onnx, subject.gates(EDITS["mixed"]))), EDITS["mixed"])


@on_three
def test_texts_without_a_feature_are_not_run(subject: Subject) -> None:
    plan = plan_of(subject, [("qq", None), TEXTS[1]], special=False)
    assert len(plan.rows) == 1
    assert plan_of(subject, [("qq", None)], special=False).answer([])[0].texts.tolist() == [0] * 4


@on_three
def test_the_reply_is_bounded(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    one, all_ = plan_of(subject, TEXTS[:1]), plan_of(subject, TEXTS)
    assert one.reply_bytes < all_.reply_bytes
    monkeypatch.setattr("bertscope_service.analyses.features.MAX_BYTES", one.reply_bytes)
    with pytest.raises(InvalidArgument) as caught:
        plan_of(subject, TEXTS)
    assert (caught.value.field, caught.value.reason) == ("texts", "REPLY_TOO_LARGE")
