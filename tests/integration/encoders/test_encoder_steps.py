"""A run may stop after any layer, be taken apart into rows, and go on in other company."""

from collections.abc import Sequence
from itertools import combinations

import pytest
import torch
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.state import State

from tests.support.reference import Subject, all_logits, assert_close, assert_equal
from tests.support.subjects import on_three


@pytest.fixture
def gates(subject: Subject) -> Sequence[Edits | None]:
    """Every third row has them."""
    gates = subject.gates({(0, 1): (0.0, 1.0), (2, 2): (0.0, 0.0)})
    return [None if index % 3 else gates for index in range(len(subject.sequences))]


@on_three
@torch.inference_mode()
def test_any_steps_equal_one_go(subject: Subject, gates: Sequence[Edits | None]) -> None:
    encoder, layers = subject.encoder, subject.encoder.shape.layers
    placed, whole = encoder.place_edits(gates), encoder.begin(subject.sequences)
    encoder.advance(whole, layers, placed)
    for count in range(layers):
        for cuts in combinations(range(1, layers), count):
            state = encoder.begin(subject.sequences)
            for stop in (*cuts, layers):
                encoder.advance(state, stop, placed)
                assert state.layer == stop
            assert_equal([state.hidden, all_logits(encoder, state)], [whole.hidden, all_logits(encoder, whole)])


@on_three
@torch.inference_mode()
def test_stopping_early(subject: Subject) -> None:
    encoder = subject.encoder
    expected = subject.reference.run(subject.sequences[:1]).hidden
    for stop in range(encoder.shape.layers):
        state, seen = encoder.begin(subject.sequences[:1]), list[int]()
        watch = {layer: lambda _, layer=layer, seen=seen: seen.append(layer) for layer in range(encoder.shape.layers)}
        encoder.advance(state, stop, None, watch)
        assert state.layer == stop
        assert seen == list(range(stop))
        assert_close([state.hidden], [expected[stop]])


@on_three
@torch.inference_mode()
def test_rows_go_on_in_other_batches(subject: Subject, gates: Sequence[Edits | None]) -> None:
    """A mixed batch, taken apart midway and stacked in other groups, ends as the whole one."""
    encoder, layers = subject.encoder, subject.encoder.shape.layers
    whole = subject.run(subject.sequences, gates, watch=False)
    for cut in range(layers + 1):
        state = encoder.begin(subject.sequences)
        encoder.advance(state, cut, encoder.place_edits(gates))
        order = sorted(range(len(subject.sequences)), key=lambda index: (index * 7) % 5)
        for group in (order[:1], order[1:3], order[3:8], order[8:]):
            stacked = State.stack([state.row(index) for index in group])
            assert stacked.layer == cut
            assert stacked.lengths == tuple(len(subject.sequences[index]) for index in group)
            encoder.advance(stacked, layers, encoder.place_edits([gates[index] for index in group]))
            logits = all_logits(encoder, stacked)
            for place, index in enumerate(group):
                length = len(subject.sequences[index])
                assert_close([logits[place, :length]], [whole.logits[index, :length]])
