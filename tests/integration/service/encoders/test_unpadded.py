"""Layers that run on the real tokens of a batch alone give what padded rows give."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.state import State
from bertscope_service.encoders.torch.encoder import TorchEncoder
from bertscope_service.encoders.torch.loading import load_encoder
from bertscope_service.encoders.unpadded import Tokens

from tests.support.family import THREE
from tests.support.questions_of_rows import answers, assert_same, offered
from tests.support.reference import EDITS, Subject
from tests.support.subjects import everywhere

BOUND = 1e-5
"""Matrix products of other shapes may add in another order: the error goes with the largest number."""

POSITIONS = torch.tensor([[0], [1]])


def assert_close(found: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=BOUND * max(1.0, float(expected.abs().max())))


def unpadded(encoder: TorchEncoder) -> TorchEncoder:
    """Lets an encoder of the CPU run as one on a GPU does."""
    assert not encoder.capabilities.unpadded, "a CPU runs padded rows"
    encoder.capabilities = replace(encoder.capabilities, unpadded=encoder.architecture.unpads)
    return encoder


@pytest.fixture(scope="module")
def both(subject: Subject) -> tuple[TorchEncoder, TorchEncoder]:
    """The same model with padding and without."""
    if not subject.encoder.architecture.unpads:
        pytest.skip("its layers read padded rows")
    return subject.encoder, unpadded(subject.load(pack=False))


@torch.inference_mode()
def run(encoder: TorchEncoder, batch: Sequence[TokenSequence], gates: list[Edits | None], only: torch.Tensor | None) -> State:
    state = encoder.begin(batch)
    encoder.advance(state, 1, encoder.place_edits(gates))
    encoder.advance(state, encoder.shape.layers, encoder.place_edits(gates), only=only)
    return state


def gates_of(subject: Subject, rows: int) -> list[Edits | None]:
    gates = subject.gates(EDITS["mixed"])
    return [gates if row % 2 else None for row in range(rows)]


@everywhere
def test_predictions_at_some_positions(both: tuple[TorchEncoder, TorchEncoder], subject: Subject) -> None:
    batch = [sequence for sequence in subject.sequences if len(sequence) > 1]
    rows = torch.arange(len(batch))
    only = torch.tensor([[0, len(sequence) - 1] for sequence in batch])
    gates = gates_of(subject, len(batch))
    narrow, expected = (run(encoder, batch, gates, only) for encoder in reversed(both))
    whole = run(both[1], batch, gates, None)
    wanted = both[0].logits(expected, rows, torch.ones_like(rows))
    for encoder, state, positions in ((both[1], narrow, torch.ones_like(rows)), (both[1], whole, only[:, 1])):
        assert_close(encoder.logits(state, rows, positions), wanted)


@pytest.fixture(scope="module", params=THREE[:2])
def loaded(request: pytest.FixtureRequest, checkpoint: Callable[[str], Path]) -> Iterator[tuple[TorchEncoder, TorchEncoder]]:
    padded, other = (
        load_encoder(checkpoint(request.param), request.param, device=torch.device("cpu"), precision="fp32", pack=False)
        for _ in range(2)
    )
    if not padded.architecture.unpads:
        pytest.skip("its layers read padded rows")
    yield padded, unpadded(other)


@pytest.mark.slow
def test_every_question(loaded: tuple[TorchEncoder, TorchEncoder]) -> None:
    padded, other = loaded
    draw = torch.Generator().manual_seed(5)
    batch = [
        TokenSequence(torch.randint(10, padded.shape.vocabulary_size, (each,), generator=draw).tolist(), [0] * each)
        for each in (24, 9, 17, 9, 12)
    ]
    for question in offered(padded):
        assert_same(answers(other, question, batch), answers(padded, question, batch))


def test_rows_of_a_longer_batch(loaded: tuple[TorchEncoder, TorchEncoder]) -> None:
    """A part of a batch keeps the padding of its longest row."""

    @torch.inference_mode()
    def run(encoder: TorchEncoder) -> torch.Tensor:
        hidden, length = torch.Generator().manual_seed(3), 12
        states = torch.randn((2, length, encoder.shape.hidden_size), generator=hidden)
        valid = torch.arange(length) < torch.tensor([[5], [7]])
        state = State(states, (5, 7), valid)
        encoder.advance(state, encoder.shape.layers)
        assert state.hidden.shape == states.shape
        return state.hidden[valid]

    padded, other = loaded
    assert_close(run(other), run(padded))


def test_places_of_tokens() -> None:
    tokens = Tokens((2, 3, 1), torch.device("cpu"))
    padded = torch.tensor([[1, 2, 0], [3, 4, 5], [6, 0, 0]])
    assert tokens.unpad(padded).tolist() == [1, 2, 3, 4, 5, 6]
    assert tokens.pad(torch.arange(1, 7))[tokens.valid].tolist() == [1, 2, 3, 4, 5, 6]
    assert tokens.starts.tolist() == [0, 2, 5, 6]
    assert tokens.positions.tolist() == [[0, 1, 0, 1, 2, 0]]
    assert tokens.of_rows(torch.tensor([7, 8, 9])).tolist() == [7, 7, 8, 8, 8, 9]
    assert tokens.pick(torch.arange(6), POSITIONS[[1, 0, 0]]).tolist() == [[1], [2], [5]]
    assert not Tokens((3, 3), torch.device("cpu")).padded
