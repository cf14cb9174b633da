"""Defines observers: reductions that run on the device beside a row."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
import torch

from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import BatchEdits
from bertscope_service.encoders.state import State


@dataclass(frozen=True, slots=True)
class Readout:
    """The output of a batch: tensors still on the device, and a function that splits them by row once they are on the host.

    `deal` gets the tensors as numpy arrays, in order, and returns one result for each row of the batch.
    """

    tensors: tuple[torch.Tensor, ...]
    deal: Callable[[tuple[np.ndarray[Any, Any], ...]], list[Any]]


class Observer(Protocol):
    """Observes one row while it runs. Rows whose observers have the same class and `group` may share a batch.

    Only the tensors that `run` returns are copied to the host, so a reduction that can run on the device belongs there.
    A class with `reads_places = False` computes little on padding, neither maps nor states of all positions: where the
    encoder's layers run on real tokens alone, its rows share a batch whatever their lengths.
    A class whose `group` belongs to a call has a `cost`, also hashable, that is the same for all rows that take equally long
    for a token: batches are sized by the rate of those that ran, of earlier calls too.
    A class whose results are larger than a row's tokens say has a `vectors`, the number of those in its result: of a caller's
    many rows, so many run ahead as their tokens, or their vectors if they are more, allow.
    """

    __slots__ = ()

    @property
    def group(self) -> Hashable:
        """Is the same for all observers of a class unless it says otherwise."""
        return None

    @classmethod
    def run(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        """Runs the layers that these observers need, from the layer of `state`, and returns their output."""
