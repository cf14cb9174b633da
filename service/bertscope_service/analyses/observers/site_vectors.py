"""Shows the vectors at the sites of a model, of each row or in sums."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.encoders.base import Encoder, ShowsHeads
from bertscope_service.encoders.edits import BatchEdits
from bertscope_service.encoders.gating import untouched
from bertscope_service.encoders.observer import Readout
from bertscope_service.encoders.sites import Place, Site
from bertscope_service.encoders.state import State


@dataclass(frozen=True, slots=True)
class SiteVectorsObserver:
    """Returns a row's vectors at some places, after its own changes: for each a float32 array [tokens, size], heads side by
    side."""

    places: tuple[Place, ...]

    @property
    def group(self) -> Hashable:
        return self.places

    @classmethod
    def run(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        places = observers[0].places
        tensors = tuple(vectors.float().flatten(2) for vectors in see(encoder, state, edits, places))
        lengths = state.lengths

        def deal(arrays: tuple[NDArray[Any], ...]) -> list[list[NDArray[np.float32]]]:
            return [[array[row, :length].copy() for array in arrays] for row, length in enumerate(lengths)]

        return Readout(tensors, deal)


@dataclass(frozen=True, slots=True)
class SiteSumsObserver:
    """Returns, for some places, the sum of a row's vectors, float32 [size], followed by the sum of their Euclidean norms."""

    places: tuple[Place, ...]

    @property
    def group(self) -> Hashable:
        return self.places

    @classmethod
    def run(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        valid, sums = state.valid, list[torch.Tensor]()
        for vectors in see(encoder, state, edits, observers[0].places):
            flat = vectors.float().flatten(2)
            with_norms = torch.cat((flat, flat.norm(dim=2, keepdim=True)), dim=2)
            sums.append((with_norms if valid is None else with_norms * valid[:, :, None]).sum(dim=1))

        def deal(arrays: tuple[NDArray[Any], ...]) -> list[list[NDArray[np.float32]]]:
            return [[array[row] for array in arrays] for row in range(len(observers))]

        return Readout(tuple(sums), deal)


def see(encoder: Encoder, state: State, edits: BatchEdits | None, places: Sequence[Place]) -> list[torch.Tensor]:
    """Runs a batch as far as some places need, and returns the vectors there, [rows, length, units, unit_size]."""
    seen: dict[Place, torch.Tensor] = {}

    def keep(place: Place, vectors: torch.Tensor) -> None:
        seen[place] = vectors.clone()

    if (arrived := (Site.STATE, state.layer)) in places:
        keep(arrived, state.hidden[:, :, None])
    if edits is None:
        edits = untouched(len(state.lengths), encoder)
    watched = {place: partial(keep, place) for place in places if place not in seen}
    stop = max((layer if site is Site.STATE else layer + 1 for site, layer in places), default=0)
    encoder.advance(state, stop, edits.watching(watched))
    rows, length = state.hidden.shape[:2]
    shape = (rows, length, encoder.shape.heads, encoder.head_size if isinstance(encoder, ShowsHeads) else 0)
    # A layer that lost all its heads computes no contexts.
    return [seen[place] if place in seen else state.hidden.new_zeros(shape) for place in places]
