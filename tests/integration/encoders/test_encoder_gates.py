"""Edits do to a head what editing its attention map in transformers does, and only in the rows that have them."""

import numpy as np
import pytest
import torch
from bertscope_service.encoders.edits import Edits

from tests.support.reference import EDITS, ZERO, HeadEdits, Subject, assert_close, assert_equal
from tests.support.subjects import THREE, everywhere, everywhere_with, on_three


@everywhere
@pytest.mark.parametrize("name", everywhere_with(EDITS, "mixed"))
def test_gates_equal_edited_maps(subject: Subject, name: str) -> None:
    gates = subject.gates(EDITS[name])
    for sequence in subject.sequences[::3] if subject.architecture in THREE else subject.sequences[1::6]:
        found, expected = subject.run([sequence], [gates]), subject.reference.run_edited(sequence, EDITS[name])
        assert_close(found.row(0), expected.row(0))
        unchanged = subject.reference.alone(sequence).logits
        assert len(sequence) == 1 or float((found.logits - unchanged).abs().max()) > 0.01


@on_three
def test_reference_edits_nothing_without_edits(subject: Subject) -> None:
    sequence = subject.sequences[4]
    assert_close(subject.reference.run_edited(sequence, {}).row(0), subject.reference.run([sequence]).row(0))


@everywhere
def test_gates_of_one_row_touch_no_other(subject: Subject) -> None:
    """Rows with gates of all kinds between rows without: the former equal each text alone, the latter stay as they were."""
    edits: list[HeadEdits | None] = [None] * len(subject.sequences)
    edits[1::2] = list(EDITS.values())[: len(edits) // 2]
    gates = [None if row is None else subject.gates(row) for row in edits]
    gated, plain = subject.run(subject.sequences, gates), subject.run(subject.sequences)
    for index, (sequence, row) in enumerate(zip(subject.sequences, edits, strict=True)):
        if row is None:
            assert_equal(gated.row(index), plain.row(index))
        else:
            assert_close(gated.row(index), subject.reference.run_edited(sequence, row).row(0))


@on_three
def test_uniform_means_real_tokens_only(subject: Subject) -> None:
    """The mean of a short text in a long batch is that of the text alone."""
    short, long = subject.sequences[0], subject.sequences[-2]
    gates = subject.gates(EDITS["all-uniform"])
    batch, alone = subject.run([long, short], [gates, gates]), subject.run([short], [gates])
    assert_close(batch.row(1), alone.row(0))


@on_three
def test_open_gates_change_nothing(subject: Subject) -> None:
    """Also in a layer where another row's gates are closed."""
    opened, closed = subject.gates({}), subject.gates(EDITS["mixed"])
    batch = subject.sequences[:4]
    plain = subject.run(batch)
    assert_equal(subject.run(batch, [opened] * 4).row(2), plain.row(2))
    assert_equal(subject.run(batch, [opened, closed, opened, None]).row(2), plain.row(2))
    assert_equal(subject.run(batch, [opened, closed, opened, None]).row(3), plain.row(3))


@on_three
@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("name", ["zero", "uniform", "mixed", "all-uniform"])
def test_unwatched_layers_obey_gates_too(subject: Subject, name: str, pack: bool) -> None:
    encoder = subject.load(pack=pack)
    gates = [subject.gates(EDITS[name]) if index % 2 else None for index in range(len(subject.sequences))]
    watched = subject.run(subject.sequences, gates)
    unwatched = subject.run(subject.sequences, gates, encoder=encoder, watch=False)
    watched.maps = []
    for index in range(len(subject.sequences)):
        assert_close(unwatched.row(index), watched.row(index))


@on_three
def test_scale_of_one_head_by_zero_is_zero_ablation(subject: Subject) -> None:
    sequence = subject.sequences[5]
    zero, scaled = subject.gates({(1, 0): ZERO}), subject.gates({(1, 0): (1e-30, 0.0)})
    assert_close(subject.run([sequence], [scaled]).row(0), subject.run([sequence], [zero]).row(0))


@on_three
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


@on_three
def test_gates_are_copied_to_the_device(subject: Subject) -> None:
    """A caller may reuse its arrays for the next row."""
    shape = (subject.encoder.shape.layers, subject.encoder.shape.heads)
    gates = Edits(np.ones(shape, dtype=np.float32), np.zeros(shape, dtype=np.float32))
    placed = subject.encoder.place_edits([gates])
    assert placed is not None
    gates.keep[:] = 0
    assert bool((placed.keep == 1).all())
