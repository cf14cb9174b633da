"""A run may stop after any layer, be taken apart into rows, and go on in other company."""

from collections.abc import Sequence
from itertools import combinations

import pytest
import torch
from bertscope_service.encoders.edits import Edits

from tests.support.reference import Subject, all_logits, assert_equal
from tests.support.subjects import on_three


@pytest.fixture
def gates(subject: Subject) -> Sequence[Edits | None]:
    """Every third row has them."""
    gates = subject.gates({(0, 1): (0.0, 1.0), (2, 2): (0.0, 0.0)})
    return [None if index % 3 else gates for index in range(len(subject.sequences))]


@pytest.mark.slow
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
