"""States of marked spans: one vector for each span and layer, from the states of the span's pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.encoders.base import BatchGates, Encoder
from bertscope_service.encoders.observer import Readout
from bertscope_service.encoders.state import State, to_device


class Pooling(Enum):
    """How the states of a span's pieces become one vector."""

    MEAN = auto()
    FIRST = auto()
    LAST = auto()


@dataclass(frozen=True, slots=True, eq=False)
class SpanStatesObserver:
    """Reads the states of a row's spans, float32 [spans, layers, hidden_size]; the result is None if one is not finite.

    layers: ascending, 0 for the embeddings. spans: first piece of each span and the one after its last, int64 [spans, 2], at
    least one span.
    """

    layers: tuple[int, ...]
    pooling: Pooling
    spans: NDArray[np.int64]

    @property
    def group(self) -> tuple[tuple[int, ...], Pooling]:
        return self.layers, self.pooling

    @classmethod
    def run(cls, encoder: Encoder, state: State, gates: BatchGates | None, observers: Sequence[Self]) -> Readout:
        layers, pooling = observers[0].layers, observers[0].pooling
        counts = [len(one.spans) for one in observers]
        rows = np.repeat(np.arange(len(observers)), counts)
        places = _places(np.concatenate([one.spans for one in observers]), pooling)
        owners, pieces = (to_device(torch.from_numpy(values), encoder.device) for values in places)
        row = to_device(torch.from_numpy(rows), encoder.device)[owners]
        size = (sum(counts), len(layers), encoder.shape.hidden_size)
        found = torch.zeros(size, dtype=torch.float32, device=encoder.device)
        for index, layer in enumerate(layers):
            if layer > state.layer:
                encoder.advance(state, layer, gates)
            states = state.hidden[row, pieces].float()
            if pooling is Pooling.MEAN:
                found[:, index].index_add_(0, owners, states)
            else:
                found[:, index] = states
        if pooling is Pooling.MEAN:
            found /= torch.bincount(owners, minlength=len(found))[:, None, None]

        least, most = torch.aminmax(found.flatten(1), dim=1)
        finite = torch.isfinite(least) & torch.isfinite(most)

        def deal(arrays: tuple[NDArray[Any], ...]) -> list[NDArray[np.float32] | None]:
            states, sound = (np.split(values, np.cumsum(counts)[:-1]) for values in arrays)
            return [own if all_finite.all() else None for own, all_finite in zip(states, sound, strict=True)]

        return Readout((found, finite), deal)


def _places(spans: NDArray[np.int64], pooling: Pooling) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the pieces to read, with the number of the span that each belongs to, both int64 [pieces]."""
    begins, ends = spans[:, 0], spans[:, 1]
    numbers = np.arange(len(spans))
    if pooling is Pooling.FIRST:
        return numbers, begins.copy()
    if pooling is Pooling.LAST:
        return numbers, ends - 1
    sizes = ends - begins
    before = np.cumsum(sizes) - sizes
    return np.repeat(numbers, sizes), np.arange(sizes.sum()) + np.repeat(begins - before, sizes)
