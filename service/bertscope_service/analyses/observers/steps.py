"""Work that is not a run of the model, done by a device's thread between batches: behind interactive rows, a step at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch

from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import BatchEdits
from bertscope_service.encoders.observer import Readout
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.state import State


@dataclass(slots=True, eq=False)
class StepObserver:
    """Does a step of work in place of running a model; its result is None. A step should take some milliseconds, and its row
    runs alone.

    A batch that failed may run again; a step that was done is not repeated then.
    """

    work: Callable[[], None]
    done: bool = False

    @property
    def group(self) -> None:
        return None

    @classmethod
    def run(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        with torch.inference_mode(False):
            for observer in observers:
                if not observer.done:
                    observer.work()
                observer.done = True

        def deal(arrays: tuple[Any, ...]) -> list[None]:
            return [None] * len(observers)

        return Readout((), deal)


def step_row(size: int) -> tuple[TokenSequence, State]:
    """Returns the sequence and the state of a step's row, of `size` tokens: the device's rate is estimated in tokens.

    The state keeps the model from embedding the sequence.
    """
    zeros = [0] * size
    return TokenSequence(zeros, zeros), State(torch.zeros((1, 1, 1), dtype=torch.float32, device="cpu"), (1,), None, 0)
