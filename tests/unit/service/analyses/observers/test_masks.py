"""Reading the predictions of a batch, with scores that a test writes down."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from bertscope_service.analyses.observers.masks import MaskObserver, MaskScores
from bertscope_service.analyses.observers.word_maps import by_word
from bertscope_service.encoders.base import Shape
from bertscope_service.encoders.state import State
from hypothesis import given, settings
from hypothesis import strategies as st

CPU = torch.device("cpu")
EXAMPLES = settings(max_examples=100, deadline=None, derandomize=True)


@dataclass
class WrittenScores:
    """An encoder whose hidden states are its scores: [rows, length, vocabulary]."""

    scores: torch.Tensor
    device: torch.device = CPU

    @property
    def shape(self) -> Shape:
        return Shape("bert", 3, 1, 1, self.scores.shape[-1], 512, 0)

    def advance(self, state: State, stop: int, gates: Any = None, *, only: torch.Tensor) -> None:
        state.layer = stop
        self.scores = self.scores[torch.arange(len(only))[:, None], only]

    def logits(self, state: State, rows: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        assert state.layer == 3
        return self.scores[rows, positions]


def read(scores: torch.Tensor, observers: Sequence[MaskObserver]) -> list[MaskScores]:
    encoder: Any = WrittenScores(scores)
    state = State(scores, (scores.shape[1],) * scores.shape[0], None)
    readout = MaskObserver.run(encoder, state, None, observers)
    dealt: list[MaskScores] = readout.deal(tuple(tensor.numpy() for tensor in readout.tensors))
    return dealt


def asking(positions: Sequence[int], top_k: int, asked: Sequence[Sequence[int]]) -> MaskObserver:
    return MaskObserver(tuple(positions), top_k, np.array(asked, dtype=np.int64).reshape(len(positions), -1))


def test_large_scores_do_not_overflow() -> None:
    (found,) = read(torch.tensor([[[1e4, 0.0, -1e4]]]), [asking([0], 1, [[0, 1]])])
    assert found.top_logs.tolist() == [[0.0]]
    assert found.asked_logs.tolist() == [[0.0, -1e4]]


@pytest.mark.slow
@EXAMPLES
@given(st.data())
def test_rows_of_all_kinds_in_one_batch(data: st.DataObject) -> None:
    """Any number of positions, predictions and questions: each row gets its own, and only those."""
    rows, length, vocabulary = data.draw(st.integers(1, 5)), 6, 12
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 1000)))
    scores = torch.randint(0, 6, (rows, length, vocabulary), generator=generator).float()
    observers = []
    for _ in range(rows):
        positions = data.draw(st.lists(st.integers(0, length - 1), min_size=1, max_size=4, unique=True))
        width = data.draw(st.integers(0, 4))
        asked = data.draw(
            st.lists(
                st.lists(st.integers(0, vocabulary - 1), min_size=width, max_size=width),
                min_size=len(positions),
                max_size=len(positions),
            )
        )
        observers.append(asking(positions, data.draw(st.integers(0, vocabulary)), asked))
    for row, (observer, found) in enumerate(zip(observers, read(scores, observers), strict=True)):
        logs = scores[row, list(observer.positions)].log_softmax(dim=-1).numpy()
        count, width = observer.asked.shape
        assert found.top_ids.shape == found.top_logs.shape == (count, observer.top_k)
        assert found.asked_logs.shape == found.asked_ranks.shape == (count, width)
        np.testing.assert_allclose(found.top_logs, -np.sort(-logs, axis=1)[:, : observer.top_k], atol=1e-5)
        np.testing.assert_allclose(np.take_along_axis(logs, found.top_ids, axis=1), found.top_logs, atol=1e-5)
        for place in range(count):
            assert len(set(found.top_ids[place].tolist())) == observer.top_k
            for column, token in enumerate(observer.asked[place]):
                assert found.asked_logs[place, column] == pytest.approx(logs[place, token], abs=1e-5)
                assert found.asked_ranks[place, column] == 1 + (logs[place] > logs[place, token]).sum()


@pytest.mark.slow
@EXAMPLES
@given(words=st.lists(st.integers(1, 4), min_size=1, max_size=6), seed=st.integers(0, 1000))
def test_by_word_sums_to_and_averages_from(words: list[int], seed: int) -> None:
    """Clark et al. 2019, section 4.1, against loops over words."""
    membership = torch.eye(len(words)).repeat_interleave(torch.tensor(words), dim=0)
    size = sum(words)
    maps = torch.rand(3, size, size, generator=torch.Generator().manual_seed(seed)).softmax(dim=-1)
    found = by_word(maps, membership)
    ends = np.cumsum([0, *words])
    spans = [slice(start, end) for start, end in pairwise(ends)]
    expected = [[maps[:, row, column].sum(dim=2).mean(dim=1) for column in spans] for row in spans]
    torch.testing.assert_close(found, torch.stack([torch.stack(row, dim=1) for row in expected], dim=1))
    torch.testing.assert_close(found.sum(dim=-1), torch.ones(3, len(words)))
