"""What is said of every architecture that is hosted: gradients of heads, and the sums that a layer is taken apart into."""

import numpy as np
import pytest
import torch
from bertscope_service.encoders.decomposition import FrozenNorm, Part, decomposition_of
from bertscope_service.encoders.edits import BatchEdits

from tests.support.reference import Subject, assert_close
from tests.support.subjects import everywhere

pytestmark = [pytest.mark.every_architecture, everywhere]
STEP = 0.003


def scores(subject: Subject, keep: torch.Tensor) -> torch.Tensor:
    """The scores of a text's own tokens, summed, if its heads are scaled by keep, [1, layers, heads]."""
    encoder, sequence = subject.encoder, subject.sequences[1]
    gates = BatchEdits(keep, torch.zeros_like(keep), frozenset(range(encoder.shape.layers)), frozenset())
    state = encoder.begin([sequence])
    encoder.advance(state, encoder.shape.layers, gates)
    places = torch.arange(len(sequence))
    found = encoder.logits(state, torch.zeros_like(places), places)
    return found.gather(1, torch.tensor(list(sequence.ids))[:, None]).sum()


@pytest.mark.slow
def test_gradients_of_heads_are_finite_differences(subject: Subject) -> None:
    shape = subject.encoder.shape
    keep = torch.ones((1, shape.layers, shape.heads), requires_grad=True)
    scores(subject, keep).backward()  # type: ignore[no-untyped-call]
    assert keep.grad is not None
    found, expected = [], []
    with torch.inference_mode():
        for layer in range(shape.layers):
            head = layer % shape.heads
            around = []
            for step in (STEP, -STEP):
                moved = torch.ones((1, shape.layers, shape.heads))
                moved[0, layer, head] += step
                around.append(float(scores(subject, moved)))
            expected.append((around[0] - around[1]) / (2 * STEP))
            found.append(float(keep.grad[0, layer, head]))
    # MobileBERT's activations have corners (ReLU), near which differences are no gradients.
    np.testing.assert_allclose(found, expected, rtol=0, atol=0.05 * max(map(abs, expected)))


def applied(norm: FrozenNorm, summed: torch.Tensor) -> torch.Tensor:
    """A normalisation of sums [1, length, size], by its frozen statistics."""
    return norm.undivided(summed) / norm.deviation[:, :, None] + (0 if norm.shift is None else norm.shift)


@torch.inference_mode()
def test_a_layer_is_the_sum_that_it_is_taken_apart_into(subject: Subject) -> None:
    """Contributions of heads through the output projection, and what heads and the feed-forward block add, make up each layer;
    what a part can't do is refused with a reason."""
    encoder, decomposition = subject.encoder, decomposition_of(subject.encoder)
    assert decomposition is not None
    refused = {part: decomposition.refusal(part) for part in Part}
    assert all(why is None or len(why) > 20 for why in refused.values())
    architecture, sequence = encoder.architecture, subject.sequences[3]
    state, places = encoder.begin([sequence]), torch.arange(len(sequence))
    for layer in range(encoder.shape.layers):
        before = state.hidden[0]
        parts = decomposition.take_apart(state, None)
        (contexts,), after = parts.contexts(), state.hidden[0]
        assert_close([decomposition.finish(layer, contexts[None], before)[0]], [after])
        projection = architecture.output_projection(layer)
        if refused[Part.CONTRIBUTIONS] is None:
            by_head = contexts.unflatten(1, (encoder.shape.heads, -1))
            summed = torch.einsum("ihd,hds->is", by_head, decomposition.projection(layer))
            assert_close([summed + (0 if projection.bias is None else projection.bias)], [projection(contexts)])
        if not any(refused[part] for part in (Part.CONTRIBUTIONS, Part.NORMALISATION, Part.END)):
            first, attended = decomposition.normalisation(parts)
            assert_close([applied(first, projection(contexts) + before)], [attended])
            second = decomposition.normalisation_at_end(layer, attended)
            assert_close([applied(second, attended + architecture.feed_forward(layer, attended))], [after[None]])
        if refused[Part.STREAM] is None:
            stream = [decomposition.stream(parts, places[place : place + 1]) for place in range(len(sequence))]
            attended = before + torch.stack([one.heads[0].sum(dim=0) for one in stream])
            attended += 0 if stream[0].bias is None else stream[0].bias
            if architecture.norm is not None:
                attended = architecture.norm_after_heads(layer)(attended)
            summed, norm = attended + torch.stack([one.feed_forward[0] for one in stream]), architecture.norm_at_end(layer)
            assert_close([summed if norm is None else norm(summed)], [after])
    if refused[Part.STREAM] is None:
        ids = torch.arange(encoder.shape.vocabulary_size).expand(len(sequence), -1)
        head = decomposition.masked_lm_head(state.hidden[0], ids)
        read = architecture.head_modules()[2](head.factor * (head.dense(state.hidden[0]) + head.dense_bias))
        assert_close([torch.einsum("ncs,ns->nc", head.rows, read) + head.bias], [architecture.predict(state.hidden[0])])
