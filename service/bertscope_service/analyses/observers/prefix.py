"""Runs the layers below the changed ones once and keeps their output."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Self

from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import BatchEdits
from bertscope_service.encoders.observer import Readout
from bertscope_service.encoders.state import State


@dataclass(frozen=True, slots=True)
class PrefixObserver:
    """Returns a row's `State` before layer `stop`, with that layer's context if the layer can compute it."""

    stop: int

    @property
    def group(self) -> Hashable:
        return self.stop

    @classmethod
    def run(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        encoder.advance(state, observers[0].stop, edits)
        encoder.attend(state)
        states = state.rows(range(len(observers)))
        return Readout((), lambda _: states)
