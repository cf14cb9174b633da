"""Attention maps, put together from their steps, against transformers' eager ones."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from bertscope_service.analyses import layer_steps
from bertscope_service.analyses.attention import AttentionObserver, AttentionPlan, AttentionQuery, TextPlan
from bertscope_service.analyses.layer_steps import LayerStep
from bertscope_service.analyses.observers.quantities import Quantity
from bertscope_service.analyses.words import Word
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.state import State
from bertscope_service.errors import InvalidArgument
from numpy.typing import NDArray

from tests.support.reference import Subject
from tests.support.rounding import BOTH_SIDES
from tests.support.subjects import on_three
from tests.support.tiny import SENTENCES

INPUTS: tuple[tuple[str, str | None], ...] = (
    (SENTENCES[0], None),
    ("The unplayable café recorded the unplayable song.", None),
    ("The unplayable song was recorded.", SENTENCES[1]),
    (SENTENCES[-1], None),
)


def query_of(
    layers: Sequence[int],
    heads: Sequence[int],
    *,
    dtype: torch.dtype = torch.float32,
    words: bool = False,
    truncate: bool = False,
) -> AttentionQuery:
    return AttentionQuery(INPUTS, tuple(layers), tuple(heads), dtype, words, truncate)


def plans_of(subject: Subject, query: AttentionQuery) -> list[TextPlan]:
    return AttentionPlan(query, subject.tokenizer, subject.encoder.device).texts


@torch.inference_mode()
def run_step(
    subject: Subject, rows: Sequence[tuple[TextPlan, AttentionObserver, State | None]], gates: Edits | None = None
) -> list[LayerStep]:
    """One step of some plans in one batch."""
    encoder = subject.encoder
    states = [state for _, _, state in rows if state is not None]
    state = State.stack(states) if states else encoder.begin([plan.sequence for plan, _, _ in rows])
    placed = encoder.place_edits([gates] * len(rows))
    readout = AttentionObserver.run(encoder, state, placed, [observer for _, observer, _ in rows])
    steps: list[LayerStep] = readout.deal(tuple(tensor.numpy() for tensor in readout.tensors))
    return steps


def assemble(subject: Subject, plan: TextPlan, gates: Edits | None = None) -> NDArray[np.float32]:
    """All maps of a text, each written where the plan says that it belongs."""
    dtype = np.dtype(np.float32 if plan.query.dtype is torch.float32 else np.float16)
    buffer = np.zeros(plan.bytes, dtype=np.uint8)
    state: State | None = None
    for observer in plan.steps:
        (step,) = run_step(subject, [(plan, observer, state)], gates)
        state = step.state
        assert (state is None) == (observer is plan.steps[-1])
        assert step.values.dtype == dtype
        for layer, maps in zip(observer.layers, step.values, strict=True):
            place = plan.offset(layer)
            assert maps.nbytes == plan.layer_bytes
            buffer[place : place + maps.nbytes] = np.ascontiguousarray(maps).view(np.uint8).reshape(-1)
    return buffer.view(dtype).reshape(plan.shape)


def expected_maps(subject: Subject, plan: TextPlan) -> NDArray[np.float32]:
    """[layers, heads, tokens, tokens] as asked, from transformers running the text alone."""
    maps = subject.reference.run([plan.sequence]).maps
    chosen: NDArray[np.float32] = torch.stack([maps[layer][0, list(plan.query.heads)] for layer in plan.query.layers]).numpy()
    return chosen


def by_words(maps: NDArray[np.float32], groups: Sequence[Sequence[int]]) -> NDArray[np.float32]:
    """Clark et al.: to a split word the sum over its pieces, from it their mean; the slow way."""
    result = np.zeros((*maps.shape[:2], len(groups), len(groups)), dtype=np.float32)
    for row, source in enumerate(groups):
        for column, target in enumerate(groups):
            for piece in source:
                for other in target:
                    result[:, :, row, column] += maps[:, :, piece, other] / len(source)
    return result


def word_groups(subject: Subject, plan: TextPlan, index: int) -> list[list[int]]:
    """Pieces of each word, special tokens apart."""
    pieces = subject.tokenizer.encode(*plan.query.inputs[index]).pieces(subject.tokenizer)
    groups: list[list[int]] = []
    for number, piece in enumerate(pieces):
        before = pieces[number - 1] if number else piece
        same = number > 0 and piece.word is not None and (before.word, before.segment) == (piece.word, piece.segment)
        if same:
            groups[-1].append(number)
        else:
            groups.append([number])
    return groups


ASKED = [
    ([0, 1, 2], [0, 1, 2, 3]),
    ([2, 0], [3, 1]),
    ([1], [2]),
    ([2, 1, 0], [0]),
    ([0], [3, 2, 1, 0]),
]


@pytest.mark.two_architectures
@pytest.mark.parametrize(("layers", "heads"), ASKED)
def test_maps_are_transformers_own(subject: Subject, layers: list[int], heads: list[int]) -> None:
    """Whatever layers and heads are asked for, in whatever order."""
    for plan in plans_of(subject, query_of(layers, heads)):
        size = len(plan.sequence)
        assert plan.shape == (len(layers), len(heads), size, size)
        assert plan.bytes == 4 * np.prod(plan.shape)
        found = assemble(subject, plan)
        np.testing.assert_allclose(found, expected_maps(subject, plan), rtol=0, atol=BOTH_SIDES)
        np.testing.assert_allclose(found.sum(axis=-1), 1, rtol=0, atol=BOTH_SIDES)


@on_three
@pytest.mark.parametrize(("layers", "heads"), ASKED)
def test_steps_cover_exactly_the_asked_layers(
    subject: Subject, monkeypatch: pytest.MonkeyPatch, layers: list[int], heads: list[int]
) -> None:
    for step_bytes in (1, 4 * 30 * 30 * len(heads) * 2, 1 << 30):
        monkeypatch.setattr(layer_steps, "STEP_BYTES", step_bytes)
        for plan in plans_of(subject, query_of(layers, heads)):
            assert [layer for step in plan.steps for layer in step.layers] == sorted(layers)
            assert [step.start for step in plan.steps] == [0, *(step.stop for step in plan.steps[:-1])]
            assert plan.steps[-1].stop == max(layers) + 1
            assert [step.last for step in plan.steps] == [False] * (len(plan.steps) - 1) + [True]
            for step in plan.steps:
                assert all(step.start <= layer < step.stop for layer in step.layers)
                assert len(step.layers) == 1 or len(step.layers) * plan.layer_bytes <= step_bytes


@on_three
@pytest.mark.parametrize(("layers", "heads"), ASKED)
@pytest.mark.parametrize("words", [False, True])
def test_many_steps_give_the_same_maps(
    subject: Subject, monkeypatch: pytest.MonkeyPatch, layers: list[int], heads: list[int], words: bool
) -> None:
    whole = [assemble(subject, plan) for plan in plans_of(subject, query_of(layers, heads, words=words))]
    monkeypatch.setattr(layer_steps, "STEP_BYTES", 1)
    plans = plans_of(subject, query_of(layers, heads, words=words))
    assert {len(plan.steps) for plan in plans} == {len(layers)}
    for plan, expected in zip(plans, whole, strict=True):
        np.testing.assert_array_equal(assemble(subject, plan), expected)


@pytest.mark.two_architectures
@on_three
def test_maps_by_word(subject: Subject) -> None:
    for index, plan in enumerate(plans_of(subject, query_of([2, 0], [1, 3, 0], words=True))):
        groups = word_groups(subject, plan, index)
        assert plan.shape == (2, 3, len(groups), len(groups))
        expected = by_words(expected_maps(subject, plan), groups)
        found = assemble(subject, plan)
        np.testing.assert_allclose(found, expected, rtol=0, atol=BOTH_SIDES)
        np.testing.assert_allclose(found.sum(axis=-1), 1, rtol=0, atol=BOTH_SIDES)


@pytest.mark.two_architectures
@on_three
def test_words_have_their_text_and_pieces(subject: Subject) -> None:
    plan = plans_of(subject, query_of([0], [0], words=True))[2]
    pieces = subject.tokenizer.encode(*INPUTS[2]).pieces(subject.tokenizer)
    assert [piece for word in plan.tokens for piece in getattr(word, "pieces", [])] == pieces
    assert any(len(word.pieces) > 1 for word in plan.tokens if isinstance(word, Word))
    for word in plan.tokens:
        assert isinstance(word, Word)
        first, last = word.pieces[0], word.pieces[-1]
        assert (word.start, word.end) == (first.start, last.end)
        text = INPUTS[2][first.segment]
        assert text is not None
        assert word.text == (first.text if first.special else text[word.start : word.end] or first.text)


@on_three
def test_float16_is_float32_rounded(subject: Subject) -> None:
    wide, narrow = (plans_of(subject, query_of([0, 2], [1, 0], dtype=dtype)) for dtype in (torch.float32, torch.float16))
    for one, other in zip(wide, narrow, strict=True):
        assert other.bytes * 2 == one.bytes
        found = assemble(subject, other)
        assert found.dtype == np.float16
        np.testing.assert_array_equal(found, assemble(subject, one).astype(np.float16))
        np.testing.assert_allclose(found.astype(np.float32).sum(axis=-1), 1, rtol=0, atol=2e-3)


@on_three
def test_texts_of_one_batch_are_cropped(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that ask for other layers, heads, formats and words share a batch if they run the same layers."""
    monkeypatch.setattr(layer_steps, "STEP_BYTES", 1 << 30)
    asked = [
        query_of([0, 2], [1, 0]),
        query_of([2], [3], words=True),
        query_of([2, 1], [0, 1, 2, 3], dtype=torch.float16),
        query_of([2, 1, 0], [2]),
    ]
    plans = [TextPlan(query, index, subject.tokenizer, subject.encoder.device) for index, query in enumerate(asked)]
    assert {plan.steps[0].group for plan in plans} == {(0, 3, Quantity.WEIGHTS, None)}
    steps = run_step(subject, [(plan, plan.steps[0], None) for plan in plans])
    for plan, step in zip(plans, steps, strict=True):
        order = [plan.steps[0].layers.index(layer) for layer in plan.query.layers]
        alone = assemble(subject, plan)
        assert step.state is None
        np.testing.assert_allclose(step.values[order].astype(np.float32), alone.astype(np.float32), rtol=0, atol=1e-3)


@on_three
def test_states_go_on_in_a_shared_batch(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_steps, "STEP_BYTES", 1)
    plans = plans_of(subject, query_of([0, 2], [1, 0]))
    states: list[State | None] = [None] * len(plans)
    maps: list[list[NDArray[np.float32]]] = [[] for _ in plans]
    for number in range(2):
        rows = [(plan, plan.steps[number], state) for plan, state in zip(plans, states, strict=True)]
        steps = run_step(subject, rows)
        states = [step.state for step in steps]
        for gathered, step in zip(maps, steps, strict=True):
            gathered.append(step.values[0].astype(np.float32))
    for plan, found in zip(plans, maps, strict=True):
        np.testing.assert_allclose(np.stack(found), expected_maps(subject, plan), rtol=0, atol=BOTH_SIDES)


@on_three
def test_gates_below_change_the_maps_above(subject: Subject) -> None:
    edits = {(0, 1): (0.0, 0.0), (1, 2): (0.0, 1.0)}
    plan = plans_of(subject, query_of([0, 1, 2], [0, 1, 2, 3]))[1]
    found = assemble(subject, plan, subject.gates(edits))
    edited = subject.reference.run_edited(plan.sequence, edits)
    np.testing.assert_allclose(found, torch.cat(edited.maps[:3]).numpy(), rtol=0, atol=1e-4)
    plain = assemble(subject, plan)
    np.testing.assert_array_equal(found[0], plain[0])
    assert np.abs(found[1:] - plain[1:]).max() > 0.01


@on_three
def test_text_that_is_too_long(subject: Subject) -> None:
    query = AttentionQuery(
        (("The cat sat.", None), ("cat " * 100, None)), (0,), (0,), torch.float32, words=False, truncate=False
    )
    with pytest.raises(InvalidArgument) as caught:
        TextPlan(query, 1, subject.tokenizer, subject.encoder.device)
    assert (caught.value.field, caught.value.reason) == ("inputs[1]", "TEXT_TOO_LONG")


@on_three
def test_truncated_text_has_the_maps_of_what_is_left(subject: Subject) -> None:
    query = AttentionQuery((("cat " * 100, None),), (0, 1), (0,), torch.float32, words=False, truncate=True)
    plan = TextPlan(query, 0, subject.tokenizer, subject.encoder.device)
    assert plan.truncated == len(subject.tokenizer.encode("cat " * 100)) - 64
    assert plan.shape == (2, 1, 64, 64)
    np.testing.assert_allclose(assemble(subject, plan), expected_maps(subject, plan), rtol=0, atol=BOTH_SIDES)


@on_three
def test_text_without_a_token(subject: Subject) -> None:
    """Control characters are dropped by WordPiece; the other vocabularies write them."""
    query = AttentionQuery((("\x00", None),), (0,), (0,), torch.float32, words=False, truncate=False)
    if not any(not piece.special for piece in subject.tokenizer.encode("\x00").pieces(subject.tokenizer)):
        with pytest.raises(InvalidArgument) as caught:
            TextPlan(query, 0, subject.tokenizer, subject.encoder.device)
        assert caught.value.reason == "EMPTY_TEXT"
    else:
        assert TextPlan(query, 0, subject.tokenizer, subject.encoder.device).shape[2] > 2
