"""Reads, of every head, how much chosen tokens of a text are attended to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.analyses.observers.map_layers import reduce_layers, slices
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import BatchEdits
from bertscope_service.encoders.observer import Observer, Readout
from bertscope_service.encoders.state import State
from bertscope_service.encoders.transfers import place_arrays


@dataclass(frozen=True, slots=True)
class ColumnScores:
    """The attention to n chosen tokens of a text, float32 [layers, n, heads].

    means: the mean of a token's column over all rows of the text. from_source: the weight from the source token.
    """

    means: NDArray[np.float32]
    from_source: NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class ColumnObserver(Observer):
    """Reads ColumnScores. places: the chosen tokens, int64 [n]; source: the token whose weights are read, too."""

    places: NDArray[np.int64]
    source: int

    @classmethod
    def run(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        lengths = state.lengths
        counts = [len(observer.places) for observer in observers]
        shares = np.zeros((len(lengths), 1, 1, max(lengths)), dtype=np.float32)
        for number, length in enumerate(lengths):
            shares[number, ..., :length] = 1 / length
        rows = np.repeat(np.arange(len(observers)), counts)
        sources = np.array([observer.source for observer in observers], dtype=np.int64)[rows]
        places = np.concatenate([observer.places for observer in observers])
        row, source, place, weights = place_arrays(encoder.device, rows, sources, places, shares)

        def reduce(maps: torch.Tensor) -> tuple[torch.Tensor, ...]:
            maps = maps.float()
            return (weights @ maps)[row, :, 0, place], maps[row, :, source, place]

        def deal(arrays: tuple[NDArray[Any], ...]) -> list[ColumnScores]:
            means, from_source = arrays
            return [ColumnScores(means[:, part], from_source[:, part]) for part in slices(counts)]

        return Readout(reduce_layers(encoder, state, edits, reduce), deal)
