"""Scores of linked words, against loops in float64 over transformers' own maps."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bertscope_service.analyses.observers.word_pairs import PairObserver, PairScores
from bertscope_service.analyses.relations import DirectionSums, LinkedText, RelationPlan, RelationQuery, RelationSums
from bertscope_service.analyses.words import Span
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import InvalidArgument
from numpy.typing import NDArray

from tests.support.exports import load_exported
from tests.support.limits import limit_sizes
from tests.support.reference import HeadEdits, Reference, Subject
from tests.support.relations import LINKED, Linked, Scores, added, expected_scores, links
from tests.support.rounding import BOTH_SIDES
from tests.support.subjects import on_three

RELATIONS = 4
"""The last one has no pair."""

EDITS: HeadEdits = {(0, 1): (0.0, 0.0), (1, 2): (0.0, 1.0), (1, 0): (-2.0, 0.0)}


def plan_of(subject: Subject, texts: Sequence[Linked], *, details: bool = False) -> RelationPlan:
    given = tuple(
        LinkedText(
            (text.texts[0], text.texts[1] if len(text.texts) > 1 else None),
            tuple(Span(*word) for word in text.words),
            np.array(text.pairs, dtype=np.int64).reshape(-1, 3),
        )
        for text in texts
    )
    names = tuple(f"relation {number}" for number in range(RELATIONS))
    return RelationPlan(RelationQuery(given, names, details), subject.tokenizer, subject.encoder.shape)


@torch.inference_mode()
def run(plan: RelationPlan, encoder: Encoder, gates: Edits | None = None, *, alone: bool = False) -> list[PairScores]:
    """The plan's rows in one batch, or each alone."""
    batches = [[row] for row in plan.rows] if alone else [plan.rows]
    found: list[PairScores] = []
    for batch in batches:
        state = encoder.begin([sequence for sequence, _ in batch])
        placed = encoder.place_edits([gates] * len(batch))
        observers: list[Any] = [observer for _, observer in batch]
        readout = PairObserver.run(encoder, state, placed, observers)
        found += readout.deal(tuple(tensor.numpy() for tensor in readout.tensors))
    return found


@pytest.fixture(scope="module")
def exact(subject: Subject) -> Reference:
    return Reference(subject.folder, torch.float64)


def maps_of(reference: Reference, sequence: TokenSequence, edits: HeadEdits | None = None) -> NDArray[np.float64]:
    """[layers * heads, length, length]"""
    outputs = reference.run_edited(sequence, edits) if edits else reference.run([sequence])
    return torch.cat(outputs.maps).flatten(0, 1).double().numpy()


def check(subject: Subject, exact: Reference, plan: RelationPlan, found: RelationSums, edits: HeadEdits | None = None) -> None:
    texts = []
    for text in LINKED:
        tokenized = subject.tokenizer.encode(*text.texts)
        maps = maps_of(exact, tokenized.sequence, edits)
        texts.append(expected_scores(maps, tokenized.pieces(subject.tokenizer), text, RELATIONS))
    for relation in range(RELATIONS):
        expected = added([text[relation] for text in texts])
        assert plan.pairs[relation] == expected.pairs
        assert plan.skipped[relation] == expected.skipped
        assert plan.chance_pairs[relation] == expected.chance_pairs
        assert plan.offsets[relation] == expected.offsets
        check_direction(found.forward, relation, expected.forward)
        check_direction(found.backward, relation, expected.backward)


def check_direction(found: DirectionSums, relation: int, expected: Scores) -> None:
    for sums, values in ((found.largest, expected.largest), (found.largest_by_chance, expected.largest_by_chance)):
        assert sums.texts[relation] == len(values)
        of_texts = np.array(values).reshape(len(values), sums.sums[relation].size)
        scale = max(len(values), 1)
        np.testing.assert_allclose(sums.sums[relation].ravel() / scale, of_texts.sum(axis=0) / scale, rtol=0, atol=BOTH_SIDES)
        np.testing.assert_allclose(
            sums.squares[relation].ravel() / scale, (of_texts**2).sum(axis=0) / scale, rtol=0, atol=BOTH_SIDES
        )
    assert (np.abs(found.correct[relation].ravel() - expected.correct) <= expected.unsure).all()
    difference = np.abs(found.correct_by_chance[relation].ravel() - expected.by_chance)
    assert (difference <= 1e-9 + np.asarray(expected.unsure_by_chance)).all()


@pytest.mark.parametrize("alone", [False, True])
def test_scores_are_those_of_the_definitions(subject: Subject, exact: Reference, alone: bool) -> None:
    plan = plan_of(subject, LINKED)
    assert (plan.pairs[:3] > plan.chance_pairs[:3]).any()
    assert (plan.skipped[:3] > 0).all()
    check(subject, exact, plan, plan.answer(run(plan, subject.encoder, alone=alone)))


@on_three
def test_scores_under_interventions(subject: Subject, exact: Reference) -> None:
    plan = plan_of(subject, LINKED)
    found = plan.answer(run(plan, subject.encoder, subject.gates(EDITS)))
    check(subject, exact, plan, found, EDITS)
    untouched = plan.answer(run(plan, subject.encoder))
    assert np.abs(found.forward.largest.sums - untouched.forward.largest.sums).max() > 0.01


@on_three
@pytest.mark.parametrize("part_bytes", [1, 4 * 4 * 40 * 40 * 3])
def test_rows_reduced_in_parts_give_the_same(subject: Subject, monkeypatch: pytest.MonkeyPatch, part_bytes: int) -> None:
    plan = plan_of(subject, LINKED)
    whole = run(plan, subject.encoder)
    limit_sizes(monkeypatch, map_bytes=part_bytes)
    for one, other in zip(run(plan, subject.encoder), whole, strict=True):
        np.testing.assert_allclose(one.weights, other.weights, rtol=0, atol=BOTH_SIDES)
        np.testing.assert_array_equal(one.hits, other.hits)
        np.testing.assert_allclose(one.offset_weights, other.offset_weights, rtol=0, atol=BOTH_SIDES)
        np.testing.assert_array_equal(one.offset_hits, other.offset_hits)


@on_three
def test_calls_add_up(subject: Subject) -> None:
    """Any number of calls give what one call gives."""
    plan = plan_of(subject, LINKED)
    whole = plan.answer(run(plan, subject.encoder, alone=True))
    parts = []
    for begin in range(0, len(LINKED), 4):
        part = plan_of(subject, LINKED[begin : begin + 4])
        parts.append((part, part.answer(run(part, subject.encoder, alone=True))))
    for name in ("pairs", "skipped", "chance_pairs"):
        np.testing.assert_array_equal(sum(getattr(part, name) for part, _ in parts), getattr(plan, name))
    for direction in ("forward", "backward"):
        all_, some = getattr(whole, direction), [getattr(sums, direction) for _, sums in parts]
        np.testing.assert_array_equal(sum(one.correct for one in some), all_.correct)
        np.testing.assert_allclose(sum(one.correct_by_chance for one in some), all_.correct_by_chance, rtol=1e-12)
        for kind in ("largest", "largest_by_chance"):
            for name in ("texts", "sums", "squares"):
                merged = sum(getattr(getattr(one, kind), name) for one in some)
                np.testing.assert_allclose(merged, getattr(getattr(all_, kind), name), rtol=1e-12)


@on_three
def test_details_add_up_to_the_sums(subject: Subject) -> None:
    plan = plan_of(subject, LINKED, details=True)
    found = plan.answer(run(plan, subject.encoder))
    for direction in ("forward", "backward"):
        sums = np.zeros_like(found.forward.correct)
        for detail in found.details:
            sums[detail.relation] += getattr(detail, direction)
        np.testing.assert_array_equal(sums, getattr(found, direction).correct)
    assert [detail.text for detail in found.details] == sorted(detail.text for detail in found.details)
    for relation in range(RELATIONS):
        offsets = [offset for detail in found.details if detail.relation == relation for offset in detail.offsets.tolist()]
        assert sorted(offsets) == sorted(plan.offsets[relation].elements())
    assert plan_of(subject, LINKED).reply_bytes < plan.reply_bytes


def two_to_the_left(plan: RelationPlan, length: int) -> torch.Tensor:
    """A map [1, heads, length, length] of which each row looks at the second word before it, if there is one."""
    maps = torch.full((1, plan.shape.heads, length, length), 0.5 / length)
    for row in range(length):
        maps[0, :, row, max(row - 2, 0)] += 0.5
    return maps


class WrittenMaps:
    """An encoder whose maps are written down."""

    device = torch.device("cpu")

    def __init__(self, plan: RelationPlan, maps: torch.Tensor) -> None:
        self.shape, self.maps = plan.shape, maps

    def advance(self, state: Any, stop: int, gates: Any, watch: Any) -> None:
        for layer in range(stop):
            watch[layer](self.maps)


@pytest.fixture
def bert(checkpoint: Callable[[str], Path]) -> Subject:
    return Subject("bert", checkpoint("bert"))


def test_a_head_that_looks_two_to_the_left_is_no_better_than_chance(bert: Subject) -> None:
    """It finds all pairs at that offset and none of the others, and so do pairs that nobody linked."""
    text = "The old man saw the cat and the dog in the house"
    words = [(at, at + len(word), 0) for word in text.split() for at in [f" {text} ".index(f" {word} ")]]
    words = [(0, 3, 0), *words[1:4], (16, 19, 0), *words[5:7], (28, 31, 0), *words[8:10], (39, 42, 0), words[11]]
    left = [(0, 2, 0), (0, 5, 3), (0, 9, 7), (1, 5, 2), (1, 8, 5)]
    plan = plan_of(bert, [Linked((text,), words, left)])
    ((sequence, observer),) = plan.rows
    assert len(sequence) == len(words) + 2  # no word of this text is split
    encoder: Any = WrittenMaps(plan, two_to_the_left(plan, len(sequence)))
    state: Any = type("State", (), {"lengths": (len(sequence),)})
    readout = PairObserver.run(encoder, state, None, [observer])  # type: ignore[list-item]
    found = plan.answer(readout.deal(tuple(tensor.numpy() for tensor in readout.tensors)))
    assert plan.pairs.tolist() == [3, 2, 0, 0]
    assert plan.offsets[0] == {-2: 3}
    assert (found.forward.correct[0] == 3).all()
    assert (found.forward.correct[1] == 0).all()
    np.testing.assert_allclose(found.forward.correct_by_chance[:2], found.forward.correct[:2], atol=1e-12)
    np.testing.assert_allclose(found.forward.largest.sums[0], found.forward.largest_by_chance.sums[0], atol=1e-6)
    # The words before do not look back.
    assert (found.backward.correct[0] == 0).all()


@pytest.mark.parametrize("name", ["bert", "modernbert"])
def test_both_runtimes_give_the_same(name: str, checkpoint: Callable[[str], Path], export_cache: Path) -> None:
    subject = Subject(name, checkpoint(name))
    plan = plan_of(subject, LINKED)
    onnx = load_exported(subject.folder, export_cache)
    check(subject, Reference(subject.folder, torch.float64), plan, plan.answer(run(plan, onnx)))
    check(subject, Reference(subject.folder, torch.float64), plan, plan.answer(run(plan, onnx, subject.gates(EDITS))), EDITS)


@on_three
def test_the_reply_is_bounded(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [links(("The cat sat on the mat in the house.",), seed, count=40) for seed in range(3)]
    one, three = plan_of(subject, texts[:1]), plan_of(subject, texts)
    assert one.reply_bytes < three.reply_bytes < 3 * one.reply_bytes
    monkeypatch.setattr("bertscope_service.analyses.relations.MAX_BYTES", one.reply_bytes)
    with pytest.raises(InvalidArgument) as caught:
        plan_of(subject, texts)
    assert (caught.value.field, caught.value.reason) == ("texts", "REPLY_TOO_LARGE")


@on_three
def test_text_of_one_token_has_nothing_to_score(subject: Subject) -> None:
    """Both of its words begin in one piece."""
    text = Linked(("a",), [(0, 1, 0)], [])
    assert plan_of(subject, [text]).rows == []
    cut = Linked(("The cat",), [(0, 1, 0), (1, 2, 0), (2, 3, 0), (4, 7, 0)], [(0, 0, 1), (1, 2, 3), (1, 0, 3)])
    plan = plan_of(subject, [cut])
    assert plan.pairs.sum() + plan.skipped.sum() == 3
    found = plan.answer(run(plan, subject.encoder))
    assert found.forward.largest.texts.max() <= 1


@on_three
def test_text_that_is_too_long(subject: Subject) -> None:
    with pytest.raises(InvalidArgument) as caught:
        plan_of(subject, [LINKED[0], Linked(("cat " * 100,), [(0, 3, 0), (4, 7, 0)], [(0, 0, 1)])])
    assert (caught.value.field, caught.value.reason) == ("texts[1].input", "TEXT_TOO_LONG")
