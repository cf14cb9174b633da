"""Reduces the states of a text's words to their inner products in each layer, on the device."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.analyses.observers.pooling import Units
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import BatchEdits
from bertscope_service.encoders.observer import Readout
from bertscope_service.encoders.state import State
from bertscope_service.encoders.transfers import place_arrays


@dataclass(frozen=True, slots=True, eq=False)
class WordProductsObserver:
    """Computes the inner products of a row's vectors after some layers, in ascending order, without their
    mean. The result is float32 [layers, vectors, vectors].

    HSIC is the same with and without the mean, and float32 holds more digits of what is left.
    """

    layers: tuple[int, ...]
    units: Units

    @property
    def group(self) -> Hashable:
        return self.layers

    @classmethod
    def run(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        counts = [observer.units.count for observer in observers]
        widest = max(counts)
        join = Units.in_batch([observer.units for observer in observers], max(state.lengths)).place(encoder.device)
        # The place of each vector in a tensor [rows, widest] that pads every row to as many.
        places = np.concatenate([np.arange(count) + row * widest for row, count in enumerate(counts)])
        place, sizes = place_arrays(encoder.device, places, np.array(counts, np.float32)[:, None, None])
        found = []
        for layer in observers[0].layers:
            if layer > state.layer:
                encoder.advance(state, layer, edits)
            states = join(state.hidden.flatten(0, 1))
            padded = states.new_zeros((len(counts) * widest, states.shape[1])).index_copy_(0, place, states)
            padded = padded.view(len(counts), widest, -1)
            centred = padded - padded.sum(dim=1, keepdim=True) / sizes
            found.append(centred @ centred.transpose(1, 2))

        def deal(arrays: tuple[NDArray[np.float32], ...]) -> list[NDArray[np.float32]]:
            return [row[:, :count, :count].copy() for row, count in zip(arrays[0], counts, strict=True)]

        return Readout((torch.stack(found, dim=1),), deal)
