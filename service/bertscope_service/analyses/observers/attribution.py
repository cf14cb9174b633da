"""Attributes the difference of two logits at a position to the parts whose outputs the model adds up there.

With its statistics frozen a layer normalisation is affine, so a state is a sum of vectors: one for each head, feed-forward
block and bias, and the embeddings. The masked-LM head is linear in it with the factor of its activation frozen. Elhage et al.
2021 ("A mathematical framework for transformer circuits") read such sums in pre-norm models, Kobayashi et al. 2021 (section
3.2) take normalisations apart like this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.analyses.observers.reading import Reading
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.decomposition import FrozenNorm, HeadStream, LayerStream, decomposition_of
from bertscope_service.encoders.edits import BatchEdits
from bertscope_service.encoders.observer import Observer, Readout
from bertscope_service.encoders.state import State, to_device


@dataclass(frozen=True, slots=True)
class AttributionScores:
    """The terms of a difference of logits: heads float32 [layers, heads]; feed_forward, biases, shifts float32 [layers];
    embeddings, head, and the difference as the model gives it."""

    heads: NDArray[np.float32]
    feed_forward: NDArray[np.float32]
    biases: NDArray[np.float32]
    shifts: NDArray[np.float32]
    embeddings: float
    head: float
    difference: float


@dataclass(frozen=True, slots=True)
class AttributionObserver(Observer):
    """Attributes the logit of one entry minus that of another at a position: AttributionScores."""

    position: int
    answers: tuple[int, int]

    @classmethod
    def run(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        decomposition = decomposition_of(encoder)
        if decomposition is None:
            raise ValueError(f"{encoder.runtime} can't take layers apart")
        read = _reading(encoder, observers)
        places = read.only[:, 0]
        terms = Terms(state.hidden[read.rows, places].float())
        while state.layer < encoder.shape.layers:
            parts = decomposition.take_apart(state, edits)
            terms.add_layer(decomposition.stream(parts, places), parts.heads, encoder.shape.heads)
        last = state.hidden[read.rows, places]
        found = terms.read(decomposition.masked_lm_head(last, read.others[0]))
        state.hidden = last[:, None]
        return Readout((found, _differences(state, read)), terms.deal)


class Terms:
    """The terms that the state at one position of each row is the sum of, float32 [n, terms, hidden_size], in their order: the
    embeddings, then the heads, output bias, shifts and feed-forward block of each layer."""

    def __init__(self, embeddings: torch.Tensor) -> None:
        """embeddings: [n, hidden_size]."""
        self._vectors = embeddings[:, None]
        self._heads = 0

    def add_layer(self, stream: LayerStream, present: Sequence[int], heads: int) -> None:
        """Adds the terms of a layer; `present` are the heads that its weights have, of `heads`."""
        count, _, size = self._vectors.shape
        self._heads = heads
        new = self._vectors.new_zeros((count, heads + 3, size))
        if len(present) == heads:
            new[:, :heads] = stream.heads
        else:
            new[:, to_device(torch.tensor(present, dtype=torch.int64, device="cpu"), new.device)] = stream.heads
        if stream.bias is not None:
            new[:, heads] = stream.bias
        self._vectors = torch.cat((self._vectors, new), dim=1)
        self._normalise(stream.first)
        self._vectors[:, -1] += stream.feed_forward
        self._normalise(stream.second)

    def _normalise(self, norm: FrozenNorm | None) -> None:
        if norm is None:
            return
        self._vectors = norm.linear(self._vectors)
        if norm.shift is not None:
            self._vectors[:, -2] += norm.shift

    def read(self, head: HeadStream) -> torch.Tensor:
        """Returns what each term adds to the first logit minus the second, float32 [n, terms + 1]; the last is the head's
        own."""
        count, terms, size = self._vectors.shape
        projected = head.dense(self._vectors.reshape(-1, size)).unflatten(0, (count, terms))
        own = head.dense_bias.float().expand(count, 1, -1)
        read = head.norm.linear(torch.cat((projected, own), dim=1) * head.factor[:, None])
        if head.norm.shift is not None:
            read[:, -1] += head.norm.shift
        found = (read @ (head.rows[:, 0] - head.rows[:, 1])[:, :, None])[..., 0]
        found[:, -1] += head.bias[:, 0] - head.bias[:, 1]
        return found

    def deal(self, arrays: tuple[NDArray[Any], ...]) -> list[AttributionScores]:
        """Returns the scores of each row."""
        found, differences = arrays
        by_layer = found[:, 1:-1].reshape(len(found), -1, self._heads + 3)
        heads, biases, shifts, feed_forward = (
            by_layer[..., : self._heads],
            *(by_layer[..., self._heads + place] for place in range(3)),
        )
        columns = zip(heads, feed_forward, biases, shifts, found[:, 0], found[:, -1], differences, strict=True)
        return [AttributionScores(*own[:4], *map(float, own[4:])) for own in columns]


def _reading(encoder: Encoder, observers: Sequence[AttributionObserver]) -> Reading:
    """Returns the reading of a position of each row, with its two entries, int64 [n, 2]."""
    answers = np.array([observer.answers for observer in observers], dtype=np.int64)
    return Reading(encoder, [(observer.position,) for observer in observers], answers)


def _differences(state: State, read: Reading) -> torch.Tensor:
    """Returns the differences of logits of a state after the last layer, float64 [n]."""
    (ids,) = read.others
    parts = [logits.gather(1, ids[part]).double() for part, logits in read.logits(state)]
    first, second = torch.cat(parts).unbind(dim=1)
    return first - second
