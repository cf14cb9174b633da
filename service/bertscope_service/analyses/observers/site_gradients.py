"""Reads gradients of a target with respect to the units of a site, on the straight line from 0 to the output that they have.

A row is one point of the line of one layer, so that points of any layers and texts share batches.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.analyses.observers.importance import parts_of, some_gates, some_rows
from bertscope_service.analyses.observers.targets import Target
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.code_edits import PlacedCodes, place_codes
from bertscope_service.encoders.edits import BatchEdits
from bertscope_service.encoders.gating import untouched
from bertscope_service.encoders.observer import Observer, Readout
from bertscope_service.encoders.site_edits import SiteEdits
from bertscope_service.encoders.sites import Codes, Place, Site
from bertscope_service.encoders.state import State
from bertscope_service.encoders.transfers import place_arrays


@dataclass(frozen=True, slots=True, eq=False)
class SitePathObserver(Observer):
    """Reads the target where the units of a place, at some positions (int64, ascending), are `share` times what they are.

    The result is (value, float32 [positions, units]): the sum, over the rows of a batch with the same `line`, of gradient times
    what the units are; None for all but the first of these rows, and for a row without a line.
    """

    target: Target
    place: Place
    positions: NDArray[np.int64]
    share: float
    line: object | None
    codes: Codes | None = None
    """The units of a state: sparse codes, whose vectors change by what these give."""

    @property
    def group(self) -> Hashable:
        return type(self.target), self.target.group, self.place[0], self.codes

    @classmethod
    def run(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        values = []
        sums: dict[int, torch.Tensor] = {}
        first = {id(one.line): row for row, one in reversed([*enumerate(observers)]) if one.line is not None}
        with torch.inference_mode(False), torch.enable_grad():
            for part in parts_of(state):
                own = observers[part]
                points = _points(encoder.device, state.hidden.shape[1], own)
                placed = untouched(len(own), encoder) if edits is None else some_gates(edits, part)
                placed = replace(placed, sites=_with_points(placed.sites, points))
                hidden = state.hidden[part].clone()
                if (first_state := points.get((Site.STATE, 0))) is not None:  # Layers change what comes later.
                    hidden = first_state.apply(hidden[:, :, None])[:, :, 0]
                rows = some_rows(state, part, hidden)
                found = type(own[0].target).values(encoder, rows, placed, [one.target for one in own])
                values.append(found.detach())
                for row, contributions in _contributions(found, points, own):
                    place = first[id(own[row].line)]
                    sums[place] = sums[place] + contributions if place in sums else contributions
        summed = sorted(sums)

        def deal(arrays: tuple[NDArray[Any], ...]) -> list[tuple[float, NDArray[np.float32] | None]]:
            by_row: Mapping[int, NDArray[np.float32]] = dict(zip(summed, arrays[1:], strict=True))
            return [(value, by_row.get(row)) for row, value in enumerate(arrays[0].tolist())]

        return Readout((torch.cat(values), *(sums[row] for row in summed)), deal)


class _Points:
    """The points of the rows of one place: as a change of a batch, it puts them there."""

    def __init__(self, numbers: NDArray[np.int64], rows: torch.Tensor, shares: torch.Tensor, codes: PlacedCodes | None) -> None:
        """numbers, rows: of the rows of the batch, on the host and on the device. shares: float32 [rows, length, 1, 1], 1 at
        positions that stay."""
        self.numbers, self._rows, self._shares, self._codes = numbers, rows, shares, codes
        self.units = self.point = shares

    def apply(self, vectors: torch.Tensor) -> torch.Tensor:
        """Returns vectors, [rows, length, units, unit_size], with the points in their rows."""
        x = vectors[self._rows].detach()
        codes = self._codes
        self.units = x if codes is None else codes.activations(x.float().flatten(0, 2)).view(*x.shape[:2], -1, 1)
        self.point = (self.units * self._shares.to(self.units.dtype)).requires_grad_()
        if codes is None:
            return vectors.index_put((self._rows,), self.point)
        after = x.float() + ((self.point - self.units)[..., 0] @ codes.decoder)[:, :, None]
        return vectors.index_put((self._rows,), after.to(vectors.dtype))

    def part(self, rows: slice) -> _Points:
        raise ValueError("points of a line can't be divided")


def _points(device: torch.device, length: int, observers: Sequence[SitePathObserver]) -> dict[Place, _Points]:
    found = {}
    given = observers[0].codes
    codes = None if given is None else place_codes(given, device)
    for place in sorted({one.place for one in observers}, key=lambda place: place[1]):
        numbers = np.array([row for row, one in enumerate(observers) if one.place == place], dtype=np.int64)
        shares = np.ones((len(numbers), length, 1, 1), dtype=np.float32)
        for index, row in enumerate(numbers.tolist()):
            shares[index, observers[row].positions] = observers[row].share
        on_device, shared = place_arrays(device, numbers, shares)
        found[place] = _Points(numbers, on_device, shared, codes)
    return found


def _with_points(sites: SiteEdits | None, points: Mapping[Place, _Points]) -> SiteEdits:
    """Returns the changes of a batch, the points after those at their places."""
    known = sites or SiteEdits()
    return replace(
        known, placed={**known.placed, **{place: (*known.placed.get(place, ()), one) for place, one in points.items()}}
    )


def _contributions(
    values: torch.Tensor, points: Mapping[Place, _Points], observers: Sequence[SitePathObserver]
) -> list[tuple[int, torch.Tensor]]:
    """Returns gradient times units of each row with a line, [positions, units]."""
    own = [one for one in points.values() if any(observers[row].line is not None for row in one.numbers)]
    if not own:
        return []
    found = []
    gradients = torch.autograd.grad(values.sum(), [one.point for one in own])
    for one, gradient in zip(own, gradients, strict=True):
        products = (gradient.float() * one.units.float()).sum(dim=3)
        for index, row in enumerate(one.numbers.tolist()):
            if observers[row].line is not None:
                (positions,) = place_arrays(products.device, observers[row].positions)
                found.append((row, products[index, positions]))
    return found
