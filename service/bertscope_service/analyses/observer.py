"""What a row wants to know, reduced on the device while it runs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
import torch

from bertscope_service.encoders.base import BatchGates, Encoder, State


@dataclass(frozen=True, slots=True)
class Readout:
    """What a batch leaves behind: tensors still on the device, and how to deal them out once they are on the host.

    `deal` gets the tensors as numpy arrays, in order, and returns one result for each row of the batch.
    """

    tensors: tuple[torch.Tensor, ...]
    deal: Callable[[tuple[np.ndarray[Any, Any], ...]], list[Any]]


class Observer(Protocol):
    """Looks at one row while it runs. Rows whose observers have the same class and `group` may share a batch.

    Only what `run` reads out crosses to the host, so a reduction that can run on the device belongs there.
    """

    @property
    def group(self) -> Hashable: ...

    @classmethod
    def run(cls, encoder: Encoder, state: State, gates: BatchGates | None, observers: Sequence[Self]) -> Readout:
        """Run the layers that these observers need, from where `state` stands, and read out what they asked for."""
