"""Compares the attention maps of two models, text by text, on the device of the second."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.analyses.observers.attention_statistics import MapReduction, TokenKinds
from bertscope_service.analyses.observers.map_layers import TINY, row_entropies, run_layers
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import BatchEdits
from bertscope_service.encoders.observer import Readout
from bertscope_service.encoders.state import State


@dataclass(frozen=True, slots=True)
class KeptMaps:
    """The maps of a text in consecutive layers, float32 [layers, heads, length, length], which stay on the device; and the
    row's state after these layers."""

    maps: torch.Tensor
    state: State


@dataclass(frozen=True, slots=True, eq=False)
class MapsObserver:
    """Keeps the maps of layers [start, stop) on the device. The result is KeptMaps."""

    start: int
    stop: int

    @property
    def group(self) -> Hashable:
        return self.start, self.stop

    @classmethod
    def run(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        lengths, layers = state.lengths, range(observers[0].start, observers[0].stop)
        kept = [
            torch.empty((len(layers), encoder.shape.heads, length, length), dtype=torch.float32, device=encoder.device)
            for length in lengths
        ]

        def see(layer: int, maps: torch.Tensor) -> None:
            for row, (length, own) in enumerate(zip(lengths, kept, strict=True)):
                own[layer - layers.start] = maps[row, :, :length, :length]

        run_layers(encoder, state, layers, edits, see)
        results = list(map(KeptMaps, kept, state.rows(range(len(kept)))))
        return Readout((), lambda _: results)


@dataclass(frozen=True, slots=True, eq=False)
class MapDifferences:
    """How the maps of one text differ in consecutive layers, each [layers, heads].

    cosine: of the flattened maps. divergence: Jensen-Shannon, mean over the rows, nats. numbers: of the second model minus
    those of the first, [layers, heads, MapNumber]. state: of the second model's row after these layers.
    """

    cosine: NDArray[np.float32]
    divergence: NDArray[np.float32]
    numbers: NDArray[np.float32]
    state: State


@dataclass(frozen=True, slots=True, eq=False)
class ComparisonObserver:
    """Compares the maps of layers [start, stop) with those of another model, `first`, which a MapsObserver kept.

    The result is MapDifferences.
    """

    start: int
    stop: int
    first: torch.Tensor
    tokens: TokenKinds

    @property
    def group(self) -> Hashable:
        return self.start, self.stop

    @classmethod
    def run(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        layers = range(observers[0].start, observers[0].stop)
        reduction = MapReduction([observer.tokens for observer in observers], encoder.device)
        real = reduction.real[:, None, :, None]
        found: list[torch.Tensor] = []

        def see(layer: int, second: torch.Tensor) -> None:
            first = _batched([observer.first[layer - layers.start] for observer in observers], second)
            found.append(_compare(first, second, real, reduction))

        run_layers(encoder, state, layers, edits, see)
        states = state.rows(range(len(observers)))

        def deal(arrays: tuple[NDArray[Any], ...]) -> list[MapDifferences]:
            return [
                MapDifferences(row[..., 0], row[..., 1], row[..., 2:], kept)
                for row, kept in zip(arrays[0], states, strict=True)
            ]

        return Readout((torch.stack(found, dim=1),), deal)


def _batched(maps: Sequence[torch.Tensor], like: torch.Tensor) -> torch.Tensor:
    """Returns maps [heads, L, L] of texts as a batch like another one, [rows, heads, length, length], with zeros as padding."""
    batch = torch.zeros(like.shape, dtype=torch.float32, device=like.device)
    for row, own in enumerate(maps):
        batch[row, :, : own.shape[1], : own.shape[2]] = own.to(like.device)
    return batch


def _compare(first: torch.Tensor, second: torch.Tensor, real: torch.Tensor, reduction: MapReduction) -> torch.Tensor:
    """Returns the cosine, the divergence, and the differences of all numbers: [rows, heads, 2 + MapNumber].

    real: 1 at the rows of real tokens, 0 at padding, float32 [rows, 1, length, 1].
    """
    second = second.float() * real
    lengths = real.sum(dim=(1, 2, 3))[:, None]
    sizes = (first.square().sum(dim=(2, 3)) * second.square().sum(dim=(2, 3))).sqrt()
    cosine = ((first * second).sum(dim=(2, 3)) / sizes.clamp_min(TINY)).clamp(max=1.0)
    divergence = mean_divergences(first, second, lengths)
    changes = reduction.numbers(second) - reduction.numbers(first)
    return torch.cat([cosine[..., None], divergence[..., None], changes], dim=-1)


def mean_divergences(first: torch.Tensor, second: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Returns the Jensen-Shannon divergences of maps from others, nats, mean over the rows: [rows, heads].

    first, second: [rows, heads, length, length], zeros in the rows of padding. lengths: real tokens, [rows, 1].
    """
    both = first + second
    divergence = 0.5 * (_negative_entropy(first) + _negative_entropy(second) - _negative_entropy(both))
    # Equal distributions differ by rounding.
    return ((divergence + 0.5 * math.log(2) * both.sum(dim=(2, 3))) / lengths).clamp(min=0.0)


def _negative_entropy(values: torch.Tensor) -> torch.Tensor:
    """Returns sum x ln x over the last two dimensions."""
    return -row_entropies(values).sum(dim=2)
