"""States of marked spans: one vector for each span and layer, from the states of the span's pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.analyses.observers.pooling import Pooling, Units
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import BatchEdits
from bertscope_service.encoders.observer import Readout
from bertscope_service.encoders.state import State

FEW_PIECES = 128
"""Rows that read more of them take, and send to the host, more than their tokens say: they get batches, and a rate, of their
own."""


@dataclass(frozen=True, slots=True, eq=False)
class SpanStatesObserver:
    """Reads the states of a row's spans, float32 [spans, layers, hidden_size]; the result is None if one is not finite.

    layers: ascending, 0 for the embeddings. spans: the pieces of each span, at least one span.
    """

    reads_places: ClassVar[bool] = False
    layers: tuple[int, ...]
    spans: Units

    @property
    def group(self) -> tuple[tuple[int, ...], Pooling, int]:
        pieces = len(self.spans.positions)
        return self.layers, self.spans.pooling, pieces.bit_length() if pieces > FEW_PIECES else 0

    @property
    def vectors(self) -> int:
        return self.spans.count

    @classmethod
    def run(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        layers = observers[0].layers
        units = Units.in_batch([one.spans for one in observers], max(state.lengths))
        join = units.place(encoder.device)
        size = (units.count, len(layers), encoder.shape.hidden_size)
        found = torch.empty(size, dtype=torch.float32, device=encoder.device)
        for index, layer in enumerate(layers):
            if layer > state.layer:
                encoder.advance(state, layer, edits)
            found[:, index] = join(state.hidden.flatten(0, 1))

        least, most = torch.aminmax(found.flatten(1), dim=1)
        finite = torch.isfinite(least) & torch.isfinite(most)
        ends = np.cumsum([one.spans.count for one in observers])[:-1]

        def deal(arrays: tuple[NDArray[Any], ...]) -> list[NDArray[np.float32] | None]:
            states, sound = (np.split(values, ends) for values in arrays)
            return [own if all_finite.all() else None for own, all_finite in zip(states, sound, strict=True)]

        return Readout((found, finite), deal)
