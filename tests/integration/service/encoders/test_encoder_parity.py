"""The encoder gives what transformers gives, for every architecture, alone and in padded batches."""

from dataclasses import replace

import pytest
import torch
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.torch.architectures import ARCHITECTURES

from tests.support.family import FAMILY, THREE
from tests.support.reference import Subject, assert_close, assert_equal
from tests.support.subjects import everywhere


@pytest.mark.every_architecture
@everywhere
def test_alone_and_in_a_padded_batch_it_equals_eager(subject: Subject) -> None:
    """To the bit. transformers lets the last real tokens of MobileBERT and ConvBERT see the padding after them, which is not
    zero, so that a text's numbers depend on its company. Here they don't: these are compared with texts alone."""
    sequences, found = subject.sequences, subject.run(subject.sequences)
    padded = None if ARCHITECTURES[subject.architecture].sees_padding else subject.reference.run(sequences)
    for index, sequence in enumerate(sequences):
        alone = subject.reference.alone(sequence).row(0)
        assert_equal(subject.run([sequence]).row(0), alone)
        if padded is None:
            assert_close(found.row(index), alone)
        else:
            assert_equal(found.row(index), padded.row(index))


FAST = [
    *((name, True, False) for name in FAMILY),
    *((name, pack, watch) for name in THREE for pack, watch in ((False, False), (False, True), (True, True))),
]


@pytest.mark.slow
@pytest.mark.every_architecture
@pytest.mark.parametrize(("subject", "pack", "watch"), FAST, indirect=["subject"])
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
@everywhere
@torch.inference_mode()
def test_shape_segments_and_chosen_positions(subject: Subject) -> None:
    shape, model, encoder = subject.encoder.shape, subject.reference.model, subject.encoder
    assert shape.architecture == subject.architecture == model.config.model_type
    assert shape.layers == model.config.num_hidden_layers
    assert shape.heads == subject.reference.alone(subject.sequences[0]).maps[0].shape[1]
    assert (shape.hidden_size, shape.vocabulary_size) == (model.config.hidden_size, model.config.vocab_size)
    assert shape.parameters == model.num_parameters() == subject.load(pack=True).shape.parameters
    assert shape.max_tokens == 64
    assert encoder.capabilities.masked_lm
    assert (encoder.runtime, encoder.precision, encoder.device.type) == ("torch", "fp32", "cpu")
    one = subject.sequences[1]
    other = TokenSequence(one.ids, [1] * len(one))
    differs = not torch.equal(subject.run([one]).logits, subject.run([other]).logits)
    assert differs == FAMILY[subject.architecture].segments
    batch = subject.sequences[:4]
    state = encoder.begin(batch)
    encoder.advance(state, shape.layers)
    places = [(2, 1), (0, 0), (3, 4), (2, 1), (1, len(batch[1]) - 1)]
    found = encoder.logits(state, torch.tensor([row for row, _ in places]), torch.tensor([at for _, at in places]))
    assert found.dtype == torch.float32
    assert found.shape == (len(places), shape.vocabulary_size)
    for scores, (row, position) in zip(found, places, strict=True):
        assert_close([scores], [subject.reference.alone(batch[row]).logits[0, position]])
    ids = torch.arange(3 * len(places)).view(-1, 3) * 7 % shape.vocabulary_size
    entries = encoder.entry_logits(state, *torch.tensor(places).T, ids)
    assert_close([entries], [found.gather(1, ids)])
