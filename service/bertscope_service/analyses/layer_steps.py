"""Plans of tensors that are computed layer by layer, so that a text's tensor is never all in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar

import torch
from numpy.typing import NDArray

from bertscope_service.encoders.observer import Observer
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.state import State

STEP_BYTES = 16 * 1024 * 1024
"""Consecutive layers run in one step while their values stay below this size, so that a long text pauses between layers. The
same on all devices: it bounds what waits on the host for a slow client."""


@dataclass(frozen=True, slots=True)
class LayerStep:
    """The values of the requested layers of one step, and the row's state after it (None after the last step).

    values: [layers, ...], layers in ascending order; bfloat16 as int16 of the same bits. product: what else a later step needs,
    on the device; None if nothing. finite: False if a value is infinite or NaN and the tensor must not be sent.
    """

    values: NDArray[Any]
    state: State | None
    product: torch.Tensor | None = None
    finite: bool = True


def as_bits(values: torch.Tensor) -> torch.Tensor:
    """Returns bfloat16 numbers, which numpy lacks, as int16 of the same bits; all others as they are."""
    return values.view(torch.int16) if values.dtype is torch.bfloat16 else values


class LayerObserver(Observer, Protocol):
    """The observer of one step, whose result is a `LayerStep`."""

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers that the step gives, ascending."""

    def after(self, product: torch.Tensor | None) -> Self:
        """Returns the observer, to continue from the product of the step before."""


class LayerTensor:
    """The tensor of one text: its tokens, its layers in the requested order, the size of one layer in the reply in bytes, and
    its steps; each step continues from the state that the one before left."""

    steps: Sequence[LayerObserver]

    def __init__(self, sequence: TokenSequence, layers: Sequence[int], layer_bytes: int) -> None:
        self.sequence = sequence
        self.layers = layers
        self.layer_bytes = layer_bytes

    @property
    def bytes(self) -> int:
        """Size of the tensor in the reply."""
        return len(self.layers) * self.layer_bytes

    @property
    def step_bytes(self) -> int:
        """Size of the largest step."""
        return max((len(step.layers) for step in self.steps), default=0) * self.layer_bytes

    def offset(self, layer: int) -> int:
        """Returns where a layer begins in the tensor, bytes."""
        return self.layers.index(layer) * self.layer_bytes

    def parts(self) -> list[tuple[int, ...]]:
        """Returns the layers of each step, ascending."""
        layers, many = sorted(self.layers), max(1, STEP_BYTES // self.layer_bytes)
        return [tuple(layers[begin : begin + many]) for begin in range(0, len(layers), many)]


TensorT = TypeVar("TensorT", bound=LayerTensor)


class LayerPlan(Generic[TensorT]):
    """The plan of the tensors of several texts; its rows are their first steps."""

    def __init__(self, texts: Sequence[TensorT]) -> None:
        self.texts = texts
        self.rows: list[tuple[TokenSequence, Observer]] = [(text.sequence, text.steps[0]) for text in texts]

    @property
    def reply_bytes(self) -> int:
        """Size of the largest step, bytes: the most that waits in memory for a client that reads slowly."""
        return max((text.step_bytes for text in self.texts), default=0)
