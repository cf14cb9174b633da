"""Reduces hidden states to sums over a text's words on the device: directions, norms, similarity to their mean."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.analyses.observers.pooling import Units
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import BatchEdits
from bertscope_service.encoders.observer import Readout
from bertscope_service.encoders.state import State
from bertscope_service.encoders.transfers import place_arrays

SMALLEST_NORM = 1e-12
"""A shorter vector counts as one of zeros, which has no direction."""


@dataclass(frozen=True, slots=True, eq=False)
class TextVectors:
    """The vectors of a text, each the mean of a unit, and those whose directions are wanted by themselves, ascending."""

    units: Units
    wanted: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class GeometrySums:
    """The sums of a text's vectors x in the observed layers.

    vectors: float32 [layers, 3, size]: sums of x / ||x||, of the squares of its components, and of x. numbers: float32
    [layers, 3]: sums of ||x|| and of its square, and the mean cosine between a vector and the mean of all. wanted: float32
    [wanted vectors, layers, size], each x / ||x||. moments: float32 [layers, size, size], sums of products of components over
    the text's whole batch, in the result of the batch's first text alone.
    """

    vectors: NDArray[np.float32]
    numbers: NDArray[np.float32]
    wanted: NDArray[np.float32]
    moments: NDArray[np.float32] | None


@dataclass(frozen=True, slots=True, eq=False)
class GeometryObserver:
    """Sums a row's vectors after some layers, in ascending order. The result is GeometrySums.

    moments: the query whose second moments are summed, None for none. Only its own rows may share a batch with the row, because
    these sums are over a whole batch.
    """

    layers: tuple[int, ...]
    text: TextVectors
    moments: Hashable = None

    @property
    def group(self) -> Hashable:
        return self.layers, self.moments

    @classmethod
    def run(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        batch = _Batch([observer.text for observer in observers], state.lengths, encoder.device)
        vectors, numbers, wanted, moments = [], [], [], []
        for layer in observers[0].layers:
            if layer > state.layer:
                encoder.advance(state, layer, edits)
            states = batch.vectors(state.hidden)
            norms = states.norm(dim=1)
            directions = states / norms.clamp(min=SMALLEST_NORM)[:, None]
            vectors.append(torch.stack([batch.sums(one) for one in (directions, directions**2, states)], dim=1))
            similar = batch.sums(batch.similarities(states, directions)) / batch.counts
            numbers.append(torch.stack([batch.sums(norms), batch.sums(norms**2), similar], dim=1))
            wanted.append(directions[batch.wanted])
            if observers[0].moments is not None:
                moments.append(states.T @ states)
        found = [torch.stack(one, dim=1) for one in (vectors, numbers, wanted)]
        if moments:
            found.append(torch.stack(moments))

        def deal(arrays: tuple[NDArray[Any], ...]) -> list[GeometrySums]:
            parts = np.split(arrays[2], batch.wanted_ends)
            products = [arrays[3] if len(arrays) > 3 else None, *[None] * (len(parts) - 1)]
            return list(map(GeometrySums, arrays[0], arrays[1], parts, products))

        return Readout(tuple(found), deal)


class _Batch:
    """The vectors of a batch on its device; they count over the whole batch."""

    def __init__(self, texts: Sequence[TextVectors], lengths: Sequence[int], device: torch.device) -> None:
        counts = np.array([text.units.count for text in texts])
        first = np.cumsum(counts) - counts
        wanted = [one + np.array(text.wanted, dtype=np.int64) for one, text in zip(first, texts, strict=True)]
        self.wanted_ends = np.cumsum([len(one) for one in wanted])[:-1]
        self._join = Units.in_batch([text.units for text in texts], max(lengths)).place(device)
        text = np.repeat(np.arange(len(texts)), counts)
        self.wanted, self.counts, self._text = place_arrays(
            device, np.concatenate(wanted), counts.clip(min=1).astype(np.float32), text
        )

    def vectors(self, hidden: torch.Tensor) -> torch.Tensor:
        """Returns the mean of the states of each vector's tokens, float32 [vectors, size]; hidden: [rows, length, size]."""
        return self._join(hidden.flatten(0, 1))

    def sums(self, values: torch.Tensor) -> torch.Tensor:
        """Returns the sums over the vectors of each text, [texts, ...]; values: [vectors, ...]."""
        return values.new_zeros((len(self.counts), *values.shape[1:])).index_add_(0, self._text, values)

    def similarities(self, states: torch.Tensor, directions: torch.Tensor) -> torch.Tensor:
        """Returns the cosine between each vector and the mean of its text's vectors, [vectors]."""
        means = self.sums(states)
        means = means / means.norm(dim=1, keepdim=True).clamp(min=SMALLEST_NORM)
        found: torch.Tensor = (directions * means[self._text]).sum(dim=1)
        return found
