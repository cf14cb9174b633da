"""Scores of labels at chosen tokens, by a token classification head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch

from bertscope_service.encoders.base import BatchGates, Encoder, ReadsPositions
from bertscope_service.encoders.observer import Observer, Readout
from bertscope_service.encoders.state import State, to_device


@dataclass(frozen=True, slots=True)
class TokenLabelProbe(Observer):
    """Reads the scores of all labels before the softmax at some positions P of a row, or at none: float32 [P, labels]."""

    positions: tuple[int, ...]

    @classmethod
    def run(cls, encoder: Encoder, state: State, gates: BatchGates | None, observers: Sequence[Self]) -> Readout:
        if not isinstance(encoder, ReadsPositions):
            raise TypeError(f"{type(encoder).__name__} has no token classification head")
        counts = [len(observer.positions) for observer in observers]
        rows = np.repeat(np.arange(len(observers), dtype=np.int64), counts)
        places = np.array([place for observer in observers for place in observer.positions], dtype=np.int64)
        encoder.advance(state, encoder.shape.layers, gates)
        row, place = (to_device(torch.from_numpy(array), encoder.device) for array in (rows, places))
        ends = np.cumsum(counts)[:-1]
        return Readout((encoder.label_tokens(state)[row, place],), lambda arrays: np.split(arrays[0], ends))
