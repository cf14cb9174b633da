"""The mean context of every head over reference texts, which mean ablation uses as replacement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch

from bertscope_service.encoders.base import ContextWatcher, Encoder
from bertscope_service.encoders.edits import BatchEdits
from bertscope_service.encoders.observer import Observer, Readout
from bertscope_service.encoders.state import State


@dataclass(frozen=True, slots=True)
class ContextObserver(Observer):
    """Sums every head's context over a row's real tokens, before any gate: float32 [layers, heads, head_size]."""

    @classmethod
    def run(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        sums: list[torch.Tensor] = []
        layers = encoder.shape.layers
        encoder.advance(state, layers, edits, taps=dict.fromkeys(range(layers), _adder(state, sums)))
        return Readout((torch.stack(sums, dim=1),), lambda arrays: list(arrays[0]))


def _adder(state: State, sums: list[torch.Tensor]) -> ContextWatcher:
    real = None if state.valid is None else state.valid[:, None, :, None]

    def add(contexts: torch.Tensor) -> None:
        contexts = contexts.float()
        sums.append((contexts if real is None else contexts * real).sum(dim=2))

    return add
