"""Scores phrases of several pieces in place of as many masks, reduced on the device; facts use it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Self

import torch

from bertscope_service.analyses.observers.masks import Entries
from bertscope_service.analyses.observers.reading import Reading, log_probabilities
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import BatchEdits
from bertscope_service.encoders.observer import Readout
from bertscope_service.encoders.state import State, to_device


@dataclass(frozen=True, slots=True)
class PhraseObserver:
    """Reads the mean of the natural logarithms of each phrase's pieces at the positions of a row: float32 [C].

    `phrases` holds the pieces of C phrases, one piece for each position: flat, int64 [positions * C].
    """

    positions: tuple[int, ...]
    phrases: Entries

    @property
    def group(self) -> Hashable:
        return len(self.positions), self.phrases

    @classmethod
    def run(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        read = Reading(encoder, [observer.positions for observer in observers])
        length = len(observers[0].positions)
        pieces = to_device(torch.from_numpy(observers[0].phrases.ids), encoder.device).view(length, -1)
        offsets = torch.arange(len(observers) * length, dtype=torch.int64, device=encoder.device) % length
        read.advance(state, edits)
        logs = torch.cat([log_probabilities(logits, pieces[offsets[part]]) for part, logits in read.logits(state)])
        means = logs.view(len(observers), length, -1).mean(dim=1)
        return Readout((means,), lambda arrays: list(arrays[0]))
