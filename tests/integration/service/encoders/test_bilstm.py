"""The BiLSTM behind the seam: padding changes nothing, and what it can't do it refuses."""

import pytest
import torch
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.state import State
from bertscope_service.encoders.torch.bilstm import Bilstm, BilstmEncoder, random_bilstm
from bertscope_service.errors import Unsupported

from tests.support.rounding import BOTH_SIDES

CPU = torch.device("cpu")
LENGTHS = (7, 1, 12, 3)


@pytest.fixture(scope="module")
def module() -> Bilstm:
    found = random_bilstm(vocabulary=50, embedding=12, units=5, classifier=9, labels=3)
    for values in found.parameters():
        values.mul_(40)  # so large that a token more or less is seen
    return found


@pytest.fixture(scope="module")
def encoder(module: Bilstm) -> Encoder:
    return BilstmEncoder(module, device=CPU, precision="fp32")


def sequence(length: int) -> TokenSequence:
    return TokenSequence([(7 * length + 3 * place) % 50 for place in range(length)], [0] * length)


def run(encoder: Encoder, *lengths: int) -> State:
    state = encoder.begin([sequence(length) for length in lengths])
    with torch.inference_mode():
        encoder.advance(state, encoder.shape.layers)
    return state


def test_a_padded_row_gives_what_it_gives_alone(encoder: Encoder) -> None:
    together = run(encoder, *LENGTHS)
    scores = encoder.classify(together)
    assert scores.dtype == torch.float32 and scores.shape == (4, 3)
    for row, length in enumerate(LENGTHS):
        alone = run(encoder, length)
        torch.testing.assert_close(scores[row], encoder.classify(alone)[0], rtol=0, atol=BOTH_SIDES)
        torch.testing.assert_close(together.row(row).hidden, alone.hidden, rtol=0, atol=BOTH_SIDES)
    assert (scores[0] - scores[2]).abs().max() > 1e-2


def test_it_is_the_network_of_the_paper(encoder: Encoder, module: Bilstm) -> None:
    ids = torch.tensor([sequence(7).ids])
    _, (last, _) = module.lstm(module.words(ids))
    expected = module.outer(torch.relu(module.inner(torch.cat([last[0], last[1]], dim=1))))
    torch.testing.assert_close(encoder.classify(run(encoder, 7)), expected, rtol=0, atol=BOTH_SIDES)
    # Two directions with four gates each, over 12 inputs, 5 units and two biases; then two linear layers.
    inner = 2 * 4 * (12 * 5 + 5 * 5 + 2 * 5) + (10 * 9 + 9) + (9 * 3 + 3)
    assert encoder.shape.parameters == inner + 50 * 12


def test_positions_that_nobody_reads_are_left_out(encoder: Encoder) -> None:
    whole, some = run(encoder, 7, 3), encoder.begin([sequence(7), sequence(3)])
    encoder.advance(some, 1, only=torch.tensor([[6, 0], [1, 2]]))
    assert torch.equal(some.hidden, torch.stack([whole.hidden[0, [6, 0]], whole.hidden[1, [1, 2]]]))


def test_what_needs_heads_is_refused(encoder: Encoder) -> None:
    assert encoder.place_edits([None, None]) is None
    state = encoder.begin([sequence(3)])
    with pytest.raises(Unsupported, match="no attention heads"):
        encoder.advance(state, 1, watch={0: lambda _: None})
    with pytest.raises(Unsupported, match="no masked-LM head"):
        encoder.logits(state, torch.tensor([0]), torch.tensor([0]))
