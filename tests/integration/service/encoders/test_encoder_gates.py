"""Edits do to a head what editing its attention map in transformers does, and only in the rows that have them."""

import pytest
import torch

from tests.support.reference import EDITS, ZERO, HeadEdits, Subject, assert_close, assert_equal
from tests.support.subjects import everywhere


@pytest.mark.slow
@pytest.mark.every_architecture
@everywhere
def test_gates_equal_edited_maps(subject: Subject) -> None:
    """Of every kind, in rows between others without gates, which stay as they were; and in a text alone."""
    names = iter(EDITS)
    edits: list[HeadEdits | None] = [EDITS[next(names)] if index % 3 else None for index in range(len(subject.sequences))]
    assert next(names, None) is None
    gates = [None if row is None else subject.gates(row) for row in edits]
    gated, plain = subject.run(subject.sequences, gates), subject.run(subject.sequences)
    for index, (sequence, row) in enumerate(zip(subject.sequences, edits, strict=True)):
        if row is None:
            assert_equal(gated.row(index), plain.row(index))
            continue
        expected = subject.reference.run_edited(sequence, row)
        assert_close(gated.row(index), expected.row(0))
        assert len(sequence) == 1 or float((expected.logits - plain.logits[index, : len(sequence)]).abs().max()) > 0.01
    sequence, mixed = subject.sequences[3], EDITS["mixed"]
    alone = subject.run([sequence], [subject.gates(mixed)])
    assert_close(alone.row(0), subject.reference.run_edited(sequence, mixed).row(0))


@pytest.mark.parametrize("subject", ["bert"], indirect=True)
def test_place_gates_names_the_layers_they_act_in(subject: Subject) -> None:
    encoder = subject.encoder
    assert encoder.place_edits([None, None]) is None
    placed = encoder.place_edits([None, subject.gates({(2, 1): ZERO, (1, 0): (1.0, 0.5)}), subject.gates({})])
    assert placed is not None
    assert placed.keep.shape == placed.uniform.shape == (3, encoder.shape.layers, encoder.shape.heads)
    assert (placed.layers, placed.uniform_layers) == (frozenset({1, 2}), frozenset({1}))
    assert placed.keep[1, 2, 1] == 0
    assert placed.uniform[1, 1, 0] == 0.5
    assert torch.equal(placed.keep[[0, 2]], torch.ones_like(placed.keep[[0, 2]]))
    opened = encoder.place_edits([subject.gates({})])
    assert opened is not None
    assert not opened.layers
