"""The encoder gives what transformers gives, for every architecture, alone and in padded batches."""

from dataclasses import replace
from itertools import product

import pytest
import torch
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.torch.architectures import ARCHITECTURES

from tests.support.family import FAMILY
from tests.support.reference import Subject, assert_close, assert_equal
from tests.support.subjects import THREE, everywhere, everywhere_with

pytestmark = everywhere


@pytest.mark.every_architecture
def test_text_alone_equals_eager_to_the_bit(subject: Subject) -> None:
    for sequence in subject.sequences:
        assert_equal(subject.run([sequence]).row(0), subject.reference.alone(sequence).row(0))


@pytest.mark.every_architecture
def test_padded_batch_equals_eager_to_the_bit(subject: Subject) -> None:
    """transformers lets the last real tokens of MobileBERT and ConvBERT see the padding after them, which is not zero, so that
    a text's numbers depend on its company. Here they don't: these are compared with transformers running each text alone.
    """
    found, reference = subject.run(subject.sequences), subject.reference
    if not ARCHITECTURES[subject.architecture].sees_padding:
        expected = reference.run(subject.sequences)
        for index in range(len(subject.sequences)):
            assert_equal(found.row(index), expected.row(index))
        return
    for index, sequence in enumerate(subject.sequences):
        assert_close(found.row(index), reference.run([sequence]).row(0))


def test_padding_leaves_no_trace(subject: Subject) -> None:
    batch = subject.run(subject.sequences)
    for index, sequence in enumerate(subject.sequences):
        assert_close(batch.row(index), subject.run([sequence]).row(0))


def test_nothing_attends_to_padding(subject: Subject) -> None:
    batch = subject.run(subject.sequences)
    for maps in batch.maps:
        for row, length in enumerate(batch.lengths):
            assert not maps[row, :, :length, length:].any()
        torch.testing.assert_close(maps.sum(dim=-1), torch.ones(maps.shape[:-1]), rtol=0, atol=1e-5)


def test_order_in_a_batch_does_not_matter(subject: Subject) -> None:
    forward, backward = subject.run(subject.sequences), subject.run(subject.sequences[::-1])
    for index in range(len(subject.sequences)):
        assert_close(backward.row(-1 - index), forward.row(index))


@pytest.mark.parametrize(("pack", "watch"), everywhere_with(product((False, True), repeat=2), (True, False)))
def test_fast_paths_are_close_to_eager(subject: Subject, pack: bool, watch: bool) -> None:
    """Packed weights, and attention that never builds a map."""
    encoder = subject.load(pack=pack)
    batch = subject.run(subject.sequences, encoder=encoder, watch=watch)
    assert bool(batch.maps) == watch
    for index, sequence in enumerate(subject.sequences):
        expected = subject.reference.alone(sequence)
        if not watch:
            expected = replace(expected, maps=[])
        assert_close(batch.row(index), expected.row(0))
        if subject.architecture in THREE or index % 4 == 0:
            assert_close(subject.run([sequence], encoder=encoder, watch=watch).row(0), expected.row(0))


@pytest.mark.every_architecture
def test_segments_count_where_the_model_has_them(subject: Subject) -> None:
    one = subject.sequences[1]
    other = TokenSequence(one.ids, [1] * len(one))
    differs = not torch.equal(subject.run([one]).logits, subject.run([other]).logits)
    assert differs == FAMILY[subject.architecture].segments


@pytest.mark.every_architecture
@torch.inference_mode()
def test_logits_at_chosen_positions(subject: Subject) -> None:
    encoder, batch = subject.encoder, subject.sequences[:4]
    state = encoder.begin(batch)
    encoder.advance(state, encoder.shape.layers)
    places = [(2, 1), (0, 0), (3, 4), (2, 1), (1, len(batch[1]) - 1)]
    found = encoder.logits(state, torch.tensor([row for row, _ in places]), torch.tensor([at for _, at in places]))
    assert found.dtype == torch.float32
    assert found.shape == (len(places), encoder.shape.vocabulary_size)
    for scores, (row, position) in zip(found, places, strict=True):
        expected = subject.reference.run([batch[row]]).logits[0, position]
        assert_close([scores], [expected])


@pytest.mark.every_architecture
def test_shape_is_the_checkpoints(subject: Subject) -> None:
    shape, model = subject.encoder.shape, subject.reference.model
    assert shape.architecture == subject.architecture == model.config.model_type
    assert shape.layers == model.config.num_hidden_layers
    assert shape.heads == subject.reference.run(subject.sequences[:1]).maps[0].shape[1]
    assert (shape.hidden_size, shape.vocabulary_size) == (model.config.hidden_size, model.config.vocab_size)
    assert shape.parameters == model.num_parameters() == subject.load(pack=True).shape.parameters
    assert shape.max_tokens == 64
    assert subject.encoder.capabilities.masked_lm
    assert (subject.encoder.runtime, subject.encoder.precision, subject.encoder.device.type) == ("torch", "fp32", "cpu")
