"""Reads, of every head, weights between chosen pairs of words, and the words that words attend to most."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.analyses.observers.map_layers import maps_at_a_time, reduce_layers, slices
from bertscope_service.analyses.observers.word_maps import SPECIAL, Words
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import BatchEdits
from bertscope_service.encoders.observer import Observer, Readout
from bertscope_service.encoders.state import State
from bertscope_service.encoders.transfers import place_arrays


@dataclass(frozen=True, slots=True)
class PairScores:
    """The attention between words of a text, for n ordered pairs (from, to) of words and m offsets.

    The weight between two words is the largest from a piece of the one to a piece of the other. A pair is hit if, of all words
    but itself and special tokens, the first one attends to the second one most. The pairs of an offset are all (i, i + offset)
    of which both words are of the same text of a pair.

    weights, hits: [layers, n, heads], float32 and bool. offset_weights, offset_hits: sums over the pairs of each offset,
    [layers, m, heads], float64 and int64.
    """

    weights: NDArray[np.float32]
    hits: NDArray[np.bool_]
    offset_weights: NDArray[np.float64]
    offset_hits: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class PairObserver(Observer):
    """Reads PairScores. pairs: int64 [n, 2], offsets: int64 [m], both of words in the order of `words`."""

    words: Words
    pairs: NDArray[np.int64]
    offsets: NDArray[np.int64]

    @classmethod
    def run(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        parts = list(_parts(observers, state.lengths, encoder))

        def reduce(maps: torch.Tensor) -> tuple[torch.Tensor, ...]:
            found = [part.read(maps[part.rows]) for part in parts]
            return tuple(map(torch.cat, zip(*found, strict=True)))

        def deal(arrays: tuple[NDArray[Any], ...]) -> list[PairScores]:
            pairs = slices(len(observer.pairs) for observer in observers)
            offsets = slices(len(observer.offsets) for observer in observers)
            weights, hits, offset_weights, offset_hits = arrays
            return [
                PairScores(weights[:, pair], hits[:, pair], offset_weights[:, offset], offset_hits[:, offset])
                for pair, offset in zip(pairs, offsets, strict=True)
            ]

        return Readout(reduce_layers(encoder, state, edits, reduce), deal)


def _parts(observers: Sequence[PairObserver], lengths: Sequence[int], encoder: Encoder) -> Iterator[_Part]:
    """Yields the rows of a batch that are reduced together."""
    many = maps_at_a_time(encoder.device, max(lengths) ** 2)
    rows, heads = max(1, many // encoder.shape.heads), min(encoder.shape.heads, many)
    for begin in range(0, len(observers), rows):
        yield _Part(observers[begin : begin + rows], slice(begin, begin + rows), heads, encoder.device)


class _Part:
    """Some rows of a batch: their words, pairs and offsets on the device. `heads` are reduced at a time."""

    def __init__(self, observers: Sequence[PairObserver], rows: slice, heads: int, device: torch.device) -> None:
        self.rows, self.heads = rows, heads
        words = [observer.words for observer in observers]
        self.tokens = max(len(row.of_piece) for row in words)
        self.count = max(len(row.segments) for row in words)
        segments = _stacked([row.segments for row in words], self.count, SPECIAL)
        first, later, sizes = _pieces_by_word(words, self.count)
        pairs = _flat([observer.pairs for observer in observers])
        offsets = _flat([observer.offsets[:, None] + self.count - 1 for observer in observers])
        self.segments, self.first, others, self.pairs, self.offsets = place_arrays(
            device, segments, first, later, pairs, offsets
        )
        self.others = [group.unbind(1) for group in others.split(sizes)] if sizes else []
        self.numbers = torch.arange(self.count, dtype=torch.int64, device=device)
        barred = (self.segments == SPECIAL)[:, None, None, :] | torch.eye(self.count, dtype=torch.bool, device=device)
        # Added to a map: several times as fast as filling by a mask.
        self.barred = torch.zeros(barred.shape, dtype=torch.float32, device=device).masked_fill_(barred, -torch.inf)
        same = (self.segments[:, :, None] == self.segments[:, None, :]) & (self.segments != SPECIAL)[:, None, :]
        self.same = same[:, None]

    def read(self, maps: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Returns the fields of PairScores of all rows, one after the other, of a layer: [n, heads] twice, [m, heads] twice.

        maps: [rows, heads, length, length].
        """
        parts = maps[..., : self.tokens, : self.tokens].split(self.heads, dim=1)
        found = [self._reduce(part.float()) for part in parts]
        return tuple(torch.cat(columns, dim=1) for columns in zip(*found, strict=True))

    def _reduce(self, maps: torch.Tensor) -> tuple[torch.Tensor, ...]:
        # Sums of rows stand for their means (Clark et al. 2019, section 4.1): the largest of a row is the same.
        found = _rows(maps, self.first)
        most = _largest(self._by_word(maps, found.clone() if self.others else found, torch.add).add_(self.barred))
        weights = self._by_word(maps, found, torch.maximum)
        row, source, target = self.pairs.unbind(1)
        hits = most[row, :, source] == target[:, None]
        at, column = self.offsets.unbind(1)
        sums = _diagonal_sums(weights * self.same)[at, :, column]
        return weights[row, :, source, target], hits, sums, self._offset_hits(most)[at, :, column]

    def _by_word(self, maps: torch.Tensor, found: torch.Tensor, combine: Callable[..., torch.Tensor]) -> torch.Tensor:
        """Combines the weights from all pieces of a word to all pieces of another, [rows, heads, words, words].

        `found`: the rows of the words' first pieces, which are overwritten.
        """
        rows, heads = maps.shape[:2]
        for row, word, piece in self.others:
            found[row, :, word] = combine(found[row, :, word], maps[row, :, piece])
        whole = found.gather(3, self.first[:, None, None, :].expand(rows, heads, self.count, -1))
        for row, word, piece in self.others:
            whole[row, :, :, word] = combine(whole[row, :, :, word], found[row, :, :, piece])
        return whole

    def _offset_hits(self, most: torch.Tensor) -> torch.Tensor:
        """Counts the hits of each offset from -(words - 1) on, int64 [rows, heads, 2 * words - 1]."""
        segments = self.segments[:, None].expand_as(most)
        inside = (segments.gather(2, most) == segments) & (segments != SPECIAL)
        counts = torch.zeros((*most.shape[:2], 2 * self.count - 1), dtype=torch.int64, device=most.device)
        return counts.scatter_add_(2, most - self.numbers + self.count - 1, inside.long())


def _rows(maps: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    """Returns chosen rows of the maps of each text, [rows, heads, n, length], from places [rows, n]."""
    if maps.device.type != "cpu":
        return maps.gather(2, chosen[:, None, :, None].expand(-1, maps.shape[1], -1, maps.shape[3]))
    # A CPU copies whole rows ten times as fast as it gathers numbers one by one.
    found = maps.new_empty((*maps.shape[:2], chosen.shape[1], maps.shape[3]))
    for own, places, target in zip(maps, chosen, found, strict=True):
        torch.index_select(own, 1, places, out=target)
    return found


def _largest(values: torch.Tensor) -> torch.Tensor:
    """Returns the place of the largest number of the last dimension; numpy finds it several times as fast on a CPU."""
    return torch.from_numpy(values.numpy().argmax(axis=-1)) if values.device.type == "cpu" else values.argmax(dim=-1)


def _diagonal_sums(maps: torch.Tensor) -> torch.Tensor:
    """Sums the diagonals of maps [..., n, n], from the lowest one on, in float64: [..., 2 * n - 1]."""
    size = maps.shape[-1]
    padded = torch.nn.functional.pad(maps, (size - 1, size - 1))
    # Each row begins one place further than the row above, so that a diagonal is a column.
    *outer, across, along = padded.stride()
    columns = padded.as_strided((*maps.shape[:-1], 2 * size - 1), (*outer, across + along, along))
    return columns.sum(dim=-2, dtype=torch.float64)


def _pieces_by_word(words: Sequence[Words], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64], list[int]]:
    """Returns the first piece of each word, int64 [rows, count], 0 for padding.

    Also returns the row, word and piece of all words that have a second piece, then a third one and so on, int64 [n, 3], and
    the number of each.
    """
    first = np.zeros((len(words), count), dtype=np.int64)
    found: list[NDArray[np.int64]] = []
    for row, layout in enumerate(words):
        order = np.argsort(layout.of_piece, kind="stable")
        sorted_words = layout.of_piece[order]
        starts = np.searchsorted(sorted_words, np.arange(len(layout.segments)))
        first[row, : len(starts)] = order[starts]
        rank = np.arange(len(order)) - starts[sorted_words]
        found.append(np.stack([rank, np.full_like(order, row), sorted_words, order], axis=1))
    table = np.concatenate(found)
    table = table[np.argsort(table[:, 0], kind="stable")]
    later = table[table[:, 0] > 0]
    return first, np.ascontiguousarray(later[:, 1:]), np.bincount(later[:, 0])[1:].tolist()


def _stacked(rows: Sequence[NDArray[np.int64]], width: int, filler: int) -> NDArray[np.int64]:
    stacked = np.full((len(rows), width), filler, dtype=np.int64)
    for row, values in enumerate(rows):
        stacked[row, : len(values)] = values
    return stacked


def _flat(rows: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Concatenates arrays [n, k], each with the number of its row before: [sum of n, 1 + k]."""
    return np.concatenate([np.insert(values, 0, row, axis=1) for row, values in enumerate(rows)])
