"""Reduces attention maps to a few numbers for each text and head on the device: masses, entropies, distances.

Masses come from two parts of a map. Products of row weights with the map give the mass that each column gets from all rows,
from those of the first text and from those of the second; sums over groups of columns follow from these. The main diagonal and
the two beside it give the rest. Entropy, the largest weight and the distance are computed row by row.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.analyses.observers.map_layers import maps_at_a_time, row_entropies
from bertscope_service.analyses.observers.quantities import Quantity, show_shares
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import BatchEdits
from bertscope_service.encoders.observer import Readout
from bertscope_service.encoders.state import State
from bertscope_service.encoders.transfers import place_arrays

SPECIAL, PADDING = -1, -2
"""The texts of special tokens and of padding."""


class MapNumber(IntEnum):
    """The numbers of a map, in the order of their tensor. The first ones are bertscope.v1.AttentionStatistic, which defines
    them.

    The others are means over the rows of tokens that are not special, for the classifier in `attention_patterns`. A cell is
    near if it is on the main diagonal or beside it, and far otherwise.
    """

    FIRST_SPECIAL = 0
    SEPARATORS = 1
    LARGEST_SEPARATOR = 2
    SELF = 3
    PREVIOUS = 4
    NEXT = 5
    PUNCTUATION = 6
    SAME_TEXT = 7
    OTHER_TEXT = 8
    ENTROPY = 9
    FIRST_SPECIAL_ENTROPY = 10
    CONFIDENCE = 11
    DISTANCE = 12

    FAR_SPECIAL = 13
    """Mass on special tokens, far cells."""
    NEAR_OWN = 14
    """Mass on the token's own text, near cells."""
    FAR_OWN = 15
    """Mass on the token's own text, far cells."""
    OTHER = 16
    """Mass on the other text of a pair."""
    WORD_ENTROPY = 17
    """Entropy, nats."""


@dataclass(frozen=True, slots=True, eq=False)
class TokenKinds:
    """The tokens of a row: `texts` says which text each belongs to, 0 or 1, or SPECIAL, int8 [length]; `punctuation` marks
    those that count as such, bool [length]."""

    texts: NDArray[np.int8]
    punctuation: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True, slots=True, eq=False)
class MapNumbers:
    """The numbers of a text's maps, float32 [layers, heads, MapNumber], and those of a map in which every token attends to all
    alike, float32 [MapNumber]."""

    numbers: NDArray[np.float32]
    uniform: NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class StatisticsObserver:
    """Computes the numbers of a row's maps in some layers, in the given order; rows of norms are divided by their sums.
    The result is MapNumbers."""

    layers: tuple[int, ...]
    tokens: TokenKinds
    quantity: Quantity = Quantity.WEIGHTS

    @property
    def group(self) -> Hashable:
        return self.layers, self.quantity

    @classmethod
    def run(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        reduction = MapReduction([observer.tokens for observer in observers], encoder.device)
        found: dict[int, torch.Tensor] = {}

        def see(layer: int, maps: torch.Tensor) -> None:
            found[layer] = reduction.numbers(maps)

        layers = observers[0].layers
        show_shares(observers[0].quantity, encoder, state, layers, edits, see)
        numbers = torch.stack([found[layer] for layer in layers], dim=1)

        def deal(arrays: tuple[NDArray[Any], ...]) -> list[MapNumbers]:
            return list(map(MapNumbers, *arrays))

        return Readout((numbers, reduction.uniform()), deal)


class MapReduction:
    """Reduces maps of a batch, one call for each layer; its weights are on the device. Padding has no weight in any number.

    real: 1 at real tokens and 0 at padding, [rows, length].
    """

    def __init__(self, tokens: Sequence[TokenKinds], device: torch.device) -> None:
        """Computes the weights of rows, columns and cells from the tokens of each row of the batch."""
        texts, punctuation = _padded(tokens)
        weights = _Weights(texts, punctuation)
        self._device = device
        arrays = (
            texts != PADDING,
            weights.parts(),
            weights.columns(),
            weights.separators,
            weights.diagonals(),
            weights.rows(),
            weights.distances(),
            weights.companions(),
        )
        placed = place_arrays(device, *(np.ascontiguousarray(array, dtype=np.float32) for array in arrays))
        self.real, self._parts, self._columns, self._separators, self._diagonals, self._rows, *more = placed
        self._distances, self._companions = more

    def uniform(self) -> torch.Tensor:
        """Returns the numbers of maps in which every token attends to all alike: [rows, MapNumber]."""
        length = self.real.shape[1]
        weights = self.real / self.real.sum(dim=1, keepdim=True)
        return self.numbers(weights[:, None, None].expand(-1, 1, length, length))[:, 0]

    def numbers(self, maps: torch.Tensor) -> torch.Tensor:
        """Returns the numbers of maps [rows, heads, length, length]: float32 [rows, heads, MapNumber]."""
        count, heads, length = maps.shape[:3]
        found = torch.empty((count, heads, len(MapNumber)), dtype=torch.float32, device=self._device)
        many = maps_at_a_time(self._device, length * length)
        rows, some = max(1, many // heads), min(heads, many)
        for begin in range(0, count, rows):
            part = slice(begin, begin + rows)
            for first in range(0, heads, some):
                chosen = slice(first, first + some)
                found[part, chosen] = self._reduce(maps[part, chosen].float(), part)
        return found

    def _reduce(self, maps: torch.Tensor, part: slice) -> torch.Tensor:
        """Returns the numbers of maps [n, heads, length, length] of some rows of the batch."""
        received = self._parts[part, None] @ maps
        first, separators, punctuation, special, own, other = (received.flatten(2) @ self._columns[part]).unbind(dim=-1)
        largest = (received[:, :, 0] * self._separators[part, None]).amax(dim=-1)
        diagonals = torch.cat([maps.diagonal(offset, -2, -1) for offset in (0, -1, 1)], dim=-1)
        to_self, previous, following, own_self, near_own, near_special = (diagonals @ self._diagonals[part]).unbind(dim=-1)
        entropies = row_entropies(maps) @ self._rows[part]
        entropy, first_entropy, word_entropy = entropies.unbind(dim=-1)
        confidence = (maps.amax(dim=-1) @ self._rows[part, :, :1])[:, :, 0]
        # A product would add the cells up one after the other: at 512 tokens, its fourth digit is wrong.
        distance = (maps * self._distances[part, None]).sum(dim=-1).sum(dim=-1)
        found = {
            MapNumber.FIRST_SPECIAL: first,
            MapNumber.SEPARATORS: separators,
            MapNumber.LARGEST_SEPARATOR: largest,
            MapNumber.SELF: to_self,
            MapNumber.PREVIOUS: previous,
            MapNumber.NEXT: following,
            MapNumber.PUNCTUATION: punctuation,
            MapNumber.SAME_TEXT: (own - own_self) * self._companions[part],
            MapNumber.OTHER_TEXT: other,
            MapNumber.ENTROPY: entropy,
            MapNumber.FIRST_SPECIAL_ENTROPY: first_entropy,
            MapNumber.CONFIDENCE: confidence,
            MapNumber.DISTANCE: distance,
            MapNumber.FAR_SPECIAL: special - near_special,
            MapNumber.NEAR_OWN: near_own,
            MapNumber.FAR_OWN: own - near_own,
            MapNumber.OTHER: other,
            MapNumber.WORD_ENTROPY: word_entropy,
        }
        return torch.stack([found[number] for number in MapNumber], dim=-1)


class _Weights:
    """The weights of a batch's rows, columns and cells, float32 arrays on the host.

    texts: int8 [rows, length], PADDING behind a text. A mean over all rows of a map weighs each with 1 / L, one over the rows
    of words, which are all tokens that are not special, with 1 / their number.
    """

    def __init__(self, texts: NDArray[np.int8], punctuation: NDArray[np.bool_]) -> None:
        self.texts, self.punctuation = texts, punctuation
        real, self.special, words = texts != PADDING, texts == SPECIAL, texts >= 0
        self.first = self.special & (self.special.cumsum(axis=1) == 1)
        self.separators = self.special & ~self.first
        self.every = real / real.sum(axis=1, keepdims=True)
        self.words = words / words.sum(axis=1, keepdims=True).clip(min=1)

    def parts(self) -> NDArray[Any]:
        """Returns the weights of rows in means over all rows, and in means over words, of the first text and of the second:
        [rows, 3, length]."""
        return np.stack([self.every, self.words * (self.texts == 0), self.words * (self.texts == 1)], axis=1)

    def columns(self) -> NDArray[Any]:
        """Returns weights of columns [rows, 3 * length, 6], those of each of the `parts` in turn, for the masses on the first
        special token, other ones, punctuation; from words, on special tokens, their own text, the other one."""
        found = np.zeros((len(self.texts), 3, self.texts.shape[1], 6))
        for number, chosen in enumerate((self.first, self.separators, self.punctuation)):
            found[:, 0, :, number] = chosen
        for part, own, other in ((1, 0, 1), (2, 1, 0)):
            for number, chosen in enumerate((self.special, self.texts == own, self.texts == other), start=3):
                found[:, part, :, number] = chosen
        return found.reshape(len(self.texts), -1, 6)

    def diagonals(self) -> NDArray[Any]:
        """Returns weights of the cells of three diagonals, the main one, the one before and the one after, in turn:
        [rows, 3 * length - 2, 6].

        They are for the masses on the token itself, the one before, the one after; from words, on themselves, on near cells of
        their own text, and on near special tokens.
        """
        found = []
        for number, (rows, columns) in enumerate(_shifts()):
            cells = np.zeros((len(self.texts), self.texts[:, rows].shape[1], 6))
            own = self.words[:, rows] * (self.texts[:, rows] == self.texts[:, columns])
            # A mean over the tokens that have such a neighbour; padding is none, and neither is what lies beyond the text.
            real = (self.every[:, rows] > 0) & (self.every[:, columns] > 0)
            cells[:, :, number] = real / real.sum(axis=1, keepdims=True).clip(min=1)
            cells[:, :, 3] = own if number == 0 else 0.0
            cells[:, :, 4] = own
            cells[:, :, 5] = self.words[:, rows] * self.special[:, columns]
            found.append(cells)
        return np.concatenate(found, axis=1)

    def rows(self) -> NDArray[Any]:
        """Returns weights of rows [rows, length, 3], for all of them, the first special token's, and those of words."""
        return np.stack([self.every, self.first, self.words], axis=2)

    def companions(self) -> NDArray[Any]:
        """Returns [rows, 1]: what makes a mean over words one over those that are not alone in their text, 0 without any."""
        counts = np.stack([(self.texts == text).sum(axis=1) for text in (0, 1)], axis=1)
        several = np.where(counts > 1, counts, 0).sum(axis=1, keepdims=True)
        found: NDArray[Any] = counts.sum(axis=1, keepdims=True) / several.clip(min=1) * (several > 0)
        return found

    def distances(self) -> NDArray[Any]:
        """Returns weights of cells [rows, length, length] for the distance."""
        places = np.arange(self.texts.shape[1])
        found: NDArray[Any] = self.every[:, :, None] * np.abs(places[:, None] - places)
        return found


def _shifts() -> tuple[tuple[slice, slice], ...]:
    """Returns the rows and the columns of the main diagonal, the one before and the one after."""
    every, tail, head = slice(None), slice(1, None), slice(None, -1)
    return (every, every), (tail, head), (head, tail)


def _padded(tokens: Sequence[TokenKinds]) -> tuple[NDArray[np.int8], NDArray[np.bool_]]:
    """Returns the texts and the punctuation of rows as arrays [rows, longest]."""
    lengths = np.array([len(one) for one in tokens])
    real = np.arange(lengths.max()) < lengths[:, None]
    texts, punctuation = np.full(real.shape, PADDING, dtype=np.int8), np.zeros(real.shape, dtype=np.bool_)
    texts[real] = np.concatenate([one.texts for one in tokens])
    punctuation[real] = np.concatenate([one.punctuation for one in tokens])
    return texts, punctuation
