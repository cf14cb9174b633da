"""An encoder without a model, observers without an analysis, and jobs of them."""

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import torch
from bertscope_service.encoders.base import Capabilities, Encoder, MapWatcher, Shape
from bertscope_service.encoders.edits import BatchEdits, Edits
from bertscope_service.encoders.observer import Readout
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.state import State, valid_mask
from bertscope_service.engine.rows import Job, Priority, Row

from tests.support.patience import granted

SECONDS = granted(20)
"""Longest that a test waits for something that happens at once."""


@dataclass(eq=False)
class FakeEncoder:
    """Its "hidden states" are the token ids, and its layers do nothing."""

    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    runtime: str = "torch"
    precision: str = "fp32"
    shape: Shape = field(default_factory=lambda: Shape("bert", 2, 1, 1, 100, 512, 0))
    capabilities: Capabilities = field(default_factory=lambda: Capabilities(masked_lm=True))

    def begin(self, sequences: Sequence[TokenSequence]) -> State:
        lengths = tuple(map(len, sequences))
        hidden = torch.zeros(len(lengths), max(lengths), 1)
        for row, sequence in enumerate(sequences):
            hidden[row, : len(sequence), 0] = torch.tensor(sequence.ids, dtype=torch.float32)
        return State(hidden, lengths, valid_mask(lengths, self.device))

    def place_edits(self, gates: Sequence[Edits | None]) -> BatchEdits | None:
        return None

    def advance(
        self, state: State, stop: int, gates: BatchEdits | None = None, watch: Mapping[int, MapWatcher] | None = None
    ) -> None:
        state.layer = stop

    def logits(self, state: State, rows: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class SumObserver:
    """Adds up the ids of a row, after telling `seen`, which may raise or wait, about its batch."""

    seen: Callable[[State], None] = lambda _: None
    group: Hashable = None

    @classmethod
    def run(cls, encoder: Encoder, state: State, gates: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        for call in dict.fromkeys(observer.seen for observer in observers):
            call(state)
        return Readout((state.hidden.sum(dim=(1, 2)),), lambda arrays: arrays[0].tolist())


class OtherObserver(SumObserver):
    """The same, of another class: its rows never share a batch with those of the first."""

    run: ClassVar[Any] = SumObserver.__dict__["run"]


@dataclass(eq=False)
class Blocker:
    """Holds the worker inside a batch, so that a test decides what waits behind it."""

    entered: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)

    def __call__(self, state: State) -> None:
        self.entered.set()
        assert self.release.wait(SECONDS)


def sequence(length: int, token: int = 1) -> TokenSequence:
    return TokenSequence([token] * length, [0] * length)


def job_of(
    encoder: Any,
    lengths: Sequence[int],
    *,
    client: str = "client",
    priority: Priority = Priority.INTERACTIVE,
    deadline: float | None = None,
    observer: SumObserver | None = None,
    kept: bool = False,
    alone: bool = False,
) -> Job:
    """A job of rows of so many tokens; `kept`: each continues from a state. Call it on an event loop."""
    observer = observer or SumObserver()
    rows = [Row(encoder, sequence(length), observer, alone=alone) for length in lengths]
    if kept:
        for row in rows:
            row.state = encoder.begin([row.sequence])
    return Job(rows, client=client, priority=priority, deadline=deadline)
