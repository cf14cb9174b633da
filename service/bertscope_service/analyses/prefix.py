"""Runs the layers below those that are changed, once, and keeps what comes out."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Self

from bertscope_service.analyses.observer import Readout
from bertscope_service.encoders.base import BatchGates, Encoder, State


@dataclass(frozen=True, slots=True)
class PrefixObserver:
    """A row's state before layer `stop`, with that layer's context where there can be one; its result is the `State`."""

    stop: int

    @property
    def group(self) -> Hashable:
        return self.stop

    @classmethod
    def run(cls, encoder: Encoder, state: State, gates: BatchGates | None, observers: Sequence[Self]) -> Readout:
        encoder.advance(state, observers[0].stop, gates)
        encoder.attend(state)
        states = [state.row(row) for row in range(len(observers))]
        return Readout((), lambda _: states)
