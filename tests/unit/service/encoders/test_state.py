"""A batch between two layers, embedded or not: what it computes, when, and what memory it holds. No model."""

import weakref

import pytest
import torch
from bertscope_service.encoders.state import State

WIDTH = 4


class Embedding:
    """Makes hidden states of two rows of 3 and 2 tokens, counting how often."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> torch.Tensor:
        self.calls += 1
        return torch.arange(2.0 * 3 * WIDTH).view(2, 3, WIDTH)


def batch(hidden: Embedding | torch.Tensor) -> State:
    return State(hidden, (3, 2), torch.tensor([[True, True, True], [True, True, False]]))


def test_an_embedding_that_fails_may_be_tried_again() -> None:
    attempts = []

    def embed() -> torch.Tensor:
        attempts.append(1)
        if len(attempts) == 1:
            raise MemoryError
        return torch.zeros(1, 1, WIDTH)

    state = State(embed, (1,), None)
    with pytest.raises(MemoryError):
        _ = state.hidden
    assert state.pending is embed
    assert state.hidden.shape == (1, 1, WIDTH)


def test_rows_and_stacks_are_the_same_whether_or_not_they_were_embedded() -> None:
    pending, embedded = batch(Embedding()), batch(Embedding()())
    assert pending.bytes == embedded.bytes == 2 * 3 * WIDTH * 4
    for state in (batch(Embedding()), embedded):
        rows = [state.row(index) for index in range(2)]
        assert [row.hidden.shape for row in rows] == [(1, 3, WIDTH), (1, 2, WIDTH)]
        again = State.stack(rows)
        assert (again.lengths, again.layer, again.pending) == ((3, 2), 0, None)
        assert torch.equal(again.hidden[0], embedded.hidden[0])
        assert torch.equal(again.hidden[1, :2], embedded.hidden[1, :2])
    alone = State.stack([State(lambda: torch.ones(1, 2, WIDTH), (2,), None)])
    assert torch.equal(alone.hidden, torch.ones(1, 2, WIDTH))


def test_a_row_holds_no_memory_of_its_batch_nor_a_batch_that_of_its_embedding() -> None:
    embedding = Embedding()
    state, made = batch(embedding), weakref.ref(embedding)
    del embedding
    row, hidden = state.row(1), weakref.ref(state.hidden)
    assert made() is None
    del state
    assert hidden() is None
    assert row.hidden.untyped_storage().nbytes() == 2 * WIDTH * 4
