"""Scores of labels at chosen tokens, by a token classification head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import torch

from bertscope_service.encoders.base import Encoder, ReadsPositions
from bertscope_service.encoders.edits import BatchEdits
from bertscope_service.encoders.observer import Observer, Readout
from bertscope_service.encoders.state import State
from bertscope_service.encoders.transfers import place_arrays


@dataclass(frozen=True, slots=True)
class TokenLabelObserver(Observer):
    """Reads the scores of all labels before the softmax at some positions P of a row, or at none: float32 [P, labels].
    `golds` are the right labels there, for the loss: the mean over the positions of -ln P, nats."""

    reads_places: ClassVar[bool] = False
    positions: tuple[int, ...]
    golds: tuple[int, ...] = ()

    @classmethod
    def run(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        scores, _ = token_scores(encoder, state, edits, [observer.positions for observer in observers])
        ends = np.cumsum([len(observer.positions) for observer in observers])[:-1]
        return Readout((scores,), lambda arrays: np.split(arrays[0], ends))

    @classmethod
    def losses(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> torch.Tensor:
        scores, rows = token_scores(encoder, state, edits, [observer.positions for observer in observers])
        golds = np.array([gold for observer in observers for gold in observer.golds], dtype=np.int64)
        counts = np.array([len(observer.golds) for observer in observers], dtype=np.float32)
        gold, count = place_arrays(encoder.device, golds, counts)
        each = torch.nn.functional.cross_entropy(scores, gold, reduction="none")
        return torch.zeros_like(count).index_add(0, rows, each) / count


def token_scores(
    encoder: Encoder, state: State, edits: BatchEdits | None, positions: Sequence[tuple[int, ...]]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Runs the remaining layers. Returns scores [n, labels] at the positions of all rows, and the row of each, int64 [n]."""
    if not isinstance(encoder, ReadsPositions):
        raise TypeError(f"{type(encoder).__name__} has no token classification head")
    counts = list(map(len, positions))
    rows = np.repeat(np.arange(len(positions), dtype=np.int64), counts)
    places = np.array([place for own in positions for place in own], dtype=np.int64)
    encoder.advance(state, encoder.shape.layers, edits)
    row, place = place_arrays(encoder.device, rows, places)
    return encoder.label_tokens(state)[row, place], row
