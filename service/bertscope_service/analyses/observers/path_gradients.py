"""Reads gradients of a target with respect to the states before layer 0, on the straight line from a base to a text.

A row is one point of the line, so that points of any texts share batches.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.analyses.observers.importance import parts_of, some_gates, some_rows
from bertscope_service.analyses.observers.targets import Target
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.decomposition import Freezes, decomposition_of
from bertscope_service.encoders.edits import BatchEdits
from bertscope_service.encoders.observer import Observer, Readout
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.state import State
from bertscope_service.encoders.transfers import place_arrays

Base = TokenSequence | NDArray[np.bool_]
"""Where a line begins: at the states of another sequence, as long as the row's, or at the row's own with zeros at some
positions, bool [length]."""


@dataclass(frozen=True, slots=True, eq=False)
class PathObserver(Observer):
    """Reads the target at base + share * (text - base), and the gradient there.

    The result is (value, float32 [length]): at each position, the sum over all dimensions of gradient times (text - base).
    share: 0 to 1. frozen: the gradient is that of `Freezes.frozen`. A text alone and in a batch gives the same result: rows
    don't mix.
    """

    target: Target
    base: Base
    share: float = 1.0
    frozen: bool = False

    @property
    def group(self) -> Hashable:
        return type(self.target), self.target.group, self.frozen, isinstance(self.base, TokenSequence)

    @classmethod
    def run(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        values, contributions = [], []
        (shares,) = place_arrays(encoder.device, np.array([one.share for one in observers], dtype=np.float32)[:, None, None])
        with torch.inference_mode(False), torch.no_grad():
            text, base = state.hidden, _base(encoder, state, [one.base for one in observers])
            for part in parts_of(state):
                # An exact end at share 1, whatever is rounded before it.
                point = torch.lerp(base[part].float(), text[part].float(), shares[part]).to(text.dtype).requires_grad_()
                placed = None if edits is None else some_gates(edits, part)
                value, gradient = _gradient(encoder, some_rows(state, part, point), placed, observers[part])
                values.append(value)
                contributions.append((gradient.float() * (text[part].float() - base[part].float())).sum(dim=2))

        def deal(arrays: tuple[NDArray[Any], ...]) -> list[tuple[float, NDArray[np.float32]]]:
            rows = zip(arrays[0].tolist(), arrays[1], state.lengths, strict=True)
            return [(value, row[:length]) for value, row, length in rows]

        return Readout((torch.cat(values), torch.cat(contributions)), deal)


def _base(encoder: Encoder, state: State, bases: Sequence[Base]) -> torch.Tensor:
    """Returns the states where the lines of a batch begin; `bases` are all of one kind."""
    sequences = [one for one in bases if isinstance(one, TokenSequence)]
    if sequences:
        return encoder.begin(sequences).hidden
    kept = np.zeros(state.hidden.shape[:2], dtype=np.bool_)
    for row, zeros in enumerate(bases):
        if not isinstance(zeros, TokenSequence):
            kept[row, : len(zeros)] = ~zeros
    (placed,) = place_arrays(encoder.device, kept)
    return state.hidden * placed[:, :, None]


def _gradient(
    encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[PathObserver]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the targets, float32 [rows], and their gradients with respect to the states of the batch, likewise shaped.

    Raises RuntimeError if a frozen gradient depends on the states: then something of the model was not held.
    """
    point, targets, frozen = state.hidden, [one.target for one in observers], observers[0].frozen
    with torch.enable_grad():
        with _freezing(encoder) if frozen else nullcontext():
            values = type(targets[0]).values(encoder, state, edits, targets)
        (gradient,) = torch.autograd.grad(values.sum(), point, create_graph=frozen)
        if gradient.requires_grad and torch.autograd.grad(gradient.sum(), point, allow_unused=True)[0] is not None:
            raise RuntimeError(f"a {encoder.shape.architecture} model with its layers frozen is not linear")
    return values.detach(), gradient


def _freezing(encoder: Encoder) -> AbstractContextManager[None]:
    decomposition: object = decomposition_of(encoder)
    if not isinstance(decomposition, Freezes):
        raise TypeError(f"{type(encoder).__name__} can't freeze its layers")
    return decomposition.frozen()
