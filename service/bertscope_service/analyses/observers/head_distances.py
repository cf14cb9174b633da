"""Computes Jensen-Shannon divergences between the maps of all pairs of heads on the device (Clark et al. 2019, section 6)."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from numpy.typing import NDArray

from bertscope_service.analyses.observers.map_layers import maps_at_a_time, row_entropies
from bertscope_service.analyses.observers.quantities import Quantity, show_shares
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import BatchEdits
from bertscope_service.encoders.observer import Readout
from bertscope_service.encoders.state import State


@dataclass(frozen=True, slots=True, eq=False)
class DivergenceObserver:
    """Sums the Jensen-Shannon divergences of the map rows [start, stop) over these rows, nats, for all pairs of heads.

    The result is float32 [n, n], n = layers * heads, row-major in the given order of layers. Each row runs in a batch of its
    own, because the maps of all layers stay in memory.
    """

    layers: tuple[int, ...]
    start: int
    stop: int
    quantity: Quantity = Quantity.WEIGHTS

    @property
    def group(self) -> Hashable:
        return id(self)

    @classmethod
    def run(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        (observer,) = observers
        kept: dict[int, torch.Tensor] = {}

        def see(layer: int, maps: torch.Tensor) -> None:
            kept[layer] = maps[0, :, observer.start : observer.stop].flatten(1).clone()

        show_shares(observer.quantity, encoder, state, observer.layers, edits, see)

        def deal(arrays: tuple[NDArray[Any], ...]) -> list[NDArray[Any]]:
            return [arrays[0]]

        return Readout((divergences(torch.cat([kept[layer] for layer in observer.layers])),), deal)


def divergences(rows: torch.Tensor) -> torch.Tensor:
    """Returns the summed divergences [n, n] between distributions [n, numbers], each several rows of a map in turn.

    That of p and q is the entropy of (p + q) / 2 minus the mean of their own. With x = p + q, it is half of
    sum p ln p + sum q ln q - sum x ln x + ln 2 sum x.
    """
    count, size = rows.shape
    own = -row_entropies(rows) + math.log(2) * rows.sum(dim=1)
    many = maps_at_a_time(rows.device, size)
    found = torch.zeros((count, count), dtype=torch.float32, device=rows.device)
    for head in range(1, count):
        for begin in range(0, head, many):
            others = slice(begin, min(head, begin + many))
            found[head, others] = own[others] + own[head] + row_entropies(rows[others] + rows[head])
    # Equal distributions differ by rounding.
    return (found + found.T).mul_(0.5).clamp_(min=0.0)
