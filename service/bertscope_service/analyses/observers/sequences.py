"""Reads whole rows: the last hidden states, or the scores over the vocabulary, of every token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.analyses.observers.reading import Reading
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import BatchEdits
from bertscope_service.encoders.observer import Observer, Readout
from bertscope_service.encoders.state import State


@dataclass(frozen=True, slots=True)
class HiddenObserver(Observer):
    """Reads the last hidden states of a row: float32 [length, hidden_size]."""

    @classmethod
    def run(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        lengths = state.lengths
        encoder.advance(state, encoder.shape.layers, edits)

        def deal(arrays: tuple[NDArray[Any], ...]) -> list[NDArray[np.float32]]:
            return [row[:length] for row, length in zip(arrays[0], lengths, strict=True)]

        return Readout((state.hidden.float(),), deal)


@dataclass(frozen=True, slots=True)
class LogitsObserver(Observer):
    """Reads the scores over the vocabulary at every token of a row, before the softmax: float32 [length, vocabulary_size]."""

    reads_places: ClassVar[bool] = False

    @classmethod
    def run(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        reading = Reading(encoder, [tuple(range(length)) for length in state.lengths])
        encoder.advance(state, encoder.shape.layers, edits)
        scores = torch.empty((len(reading.rows), encoder.shape.vocabulary_size), dtype=torch.float32, device=encoder.device)
        for part, logits in reading.logits(state):
            scores[part] = logits
        return Readout((scores,), lambda arrays: reading.split(arrays[0]))
