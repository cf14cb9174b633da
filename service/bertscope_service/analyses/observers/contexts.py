"""Reduces the values of heads, activations and directions at the words of a batch: sums, histograms, the largest values, and
those at places that were drawn."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import accumulate
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.analyses.observers.context_units import PAIRS, UnitSet
from bertscope_service.analyses.observers.pooling import Units
from bertscope_service.encoders.base import Encoder, ShowsHeads
from bertscope_service.encoders.edits import BatchEdits
from bertscope_service.encoders.gating import untouched
from bertscope_service.encoders.observer import Observer, Readout
from bertscope_service.encoders.sites import Place, Site
from bertscope_service.encoders.size_limits import size_limits
from bertscope_service.encoders.state import State
from bertscope_service.encoders.transfers import place_arrays

PLACE_BITS = 24
"""A place is the rank of its text, shifted by so many bits, and the number of its word there."""

TENSORS = 7
"""The tensors of `Found` that come from the device."""

MOST_CANDIDATES = 4
"""A batch's values from a unit's bound on are sent if there are at most so many times the places asked for, of all units."""


@dataclass(frozen=True, slots=True, eq=False)
class TextPlaces:
    """The places of a text. `rank` is its own in the order of the corpus.

    of_piece: word of each token, int64 [tokens]. readable: words that are no special tokens, bool [words]. queries: those that
    are places, int64 [places], and `units` their pieces. pairs: words of each pair that is a place, int64 [pairs, 2]. drawn: of
    words and of pairs the places in the sample, int64 [n, 2]: index among the text's, and in the sample.
    """

    rank: int
    of_piece: NDArray[np.int64]
    readable: NDArray[np.bool_]
    queries: NDArray[np.int64]
    units: Units
    pairs: NDArray[np.int64]
    drawn: dict[bool, NDArray[np.int64]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """The result of a batch for one UnitSet of n units at its p places; values are float32.

    sums: [2, n], of values and of their squares. counted: see Bins.count. flat: int64 [m], place * n + unit of the values
    that may be among the largest of the unit, and `values` [m]. drawn: int64 [d], places in the sample; their values [d, n].
    partners and drawn_partners, words, are empty for other units than heads. places: int64 [p].
    """

    sums: NDArray[np.float32]
    counted: NDArray[Any]
    flat: NDArray[np.int64]
    values: NDArray[np.float32]
    partners: NDArray[np.int64]
    drawn_values: NDArray[np.float32]
    drawn_partners: NDArray[np.int64]
    drawn: NDArray[np.int64]
    places: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Search:
    """The units that a call searches for, and how many of the largest values of each it wants. bounds: of each set and unit the
    least of those that it has so far, float32 [units], -inf with fewer; they only grow."""

    sets: Sequence[UnitSet]
    best: int
    bounds: Sequence[NDArray[np.float32]]

    @cached_property
    def cost(self) -> Hashable:
        """Names what the time of a batch depends on."""
        return self.best, tuple((one.kind, one.place or one.layer, len(one)) for one in self.sets)


@dataclass(frozen=True, slots=True, eq=False)
class ContextsObserver(Observer):
    """Searches a row's places. The result of a batch's first row is a list: the number of each set with places, and its Found;
    that of the others is None."""

    search: Search
    text: TextPlaces

    @property
    def group(self) -> Hashable:
        return self.search

    @property
    def cost(self) -> Hashable:
        return self.search.cost

    @classmethod
    def run(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        search = observers[0].search
        batch = _Batch([observer.text for observer in observers], max(state.lengths), search, encoder)
        found: dict[int, tuple[torch.Tensor, ...]] = {}

        def reduce(numbers: Sequence[int], read: Callable[[UnitSet], tuple[torch.Tensor, torch.Tensor | None]]) -> None:
            for number in numbers:
                chosen = search.sets[number]
                if batch.count(chosen):
                    found[number] = batch.reduce(number, *read(chosen))

        def see_vectors(numbers: Sequence[int], vectors: torch.Tensor) -> None:
            words = batch.vectors(vectors.flatten(2))
            reduce(numbers, lambda chosen: (chosen.read(words), None))

        def see_maps(numbers: Sequence[int], maps: torch.Tensor) -> None:
            weights = batch.weights(maps)
            reduce(numbers, lambda chosen: batch.heads(chosen, weights))

        _watch(encoder, state, edits, search.sets, see_vectors, see_maps)
        numbers = sorted(found)

        def deal(arrays: tuple[NDArray[Any], ...]) -> list[list[tuple[int, Found]] | None]:
            parts = [arrays[begin : begin + TENSORS] for begin in range(0, len(arrays), TENSORS)]
            named = [batch.named(search.sets[number]) for number in numbers]
            dealt = [(number, Found(*part, *names)) for number, part, names in zip(numbers, parts, named, strict=True)]  # type: ignore[call-arg]
            return [dealt, *[None] * (len(observers) - 1)]

        return Readout(tuple(tensor for number in numbers for tensor in found[number]), deal)


def _watch(
    encoder: Encoder,
    state: State,
    edits: BatchEdits | None,
    sets: Sequence[UnitSet],
    see_vectors: Callable[[Sequence[int], torch.Tensor], None],
    see_maps: Callable[[Sequence[int], torch.Tensor], None],
) -> None:
    """Runs the layers that some sets need, and shows their vectors and maps."""
    maps, places = dict[int, list[int]](), dict[Place, list[int]]()
    for number, one in enumerate(sets):
        if one.place is None:
            maps.setdefault(one.layer, []).append(number)
        else:
            places.setdefault(one.place, []).append(number)
    unseen = dict(places)

    def see(place: Place, vectors: torch.Tensor) -> None:
        see_vectors(unseen.pop(place), vectors)

    if (arrived := (Site.STATE, state.layer)) in places:
        see(arrived, state.hidden[:, :, None])
    if unseen:
        watched = {place: partial(see, place) for place in unseen}
        edits = (untouched(len(state.lengths), encoder) if edits is None else edits).watching(watched)
    rows, length = state.hidden.shape[:2]
    stop = max((one.layer + (one.place is None or one.place[0] is not Site.STATE) for one in sets), default=0)
    encoder.advance(state, stop, edits, {layer: partial(see_maps, numbers) for layer, numbers in maps.items()} or None)
    for numbers in list(unseen.values()):
        # A layer that lost all its heads computes no contexts.
        size = encoder.head_size if isinstance(encoder, ShowsHeads) else 0
        see_vectors(numbers, state.hidden.new_zeros((rows, length, encoder.shape.heads, size)))


class _Batch:
    """The places of a batch on its device, in the order of the corpus."""

    def __init__(self, texts: Sequence[TextPlaces], length: int, search: Search, encoder: Encoder) -> None:
        self._search = search
        rows = {row: texts[row] for row in sorted(range(len(texts)), key=lambda row: texts[row].rank)}
        self._join = Units.in_batch({row: text.units for row, text in rows.items()}, length).place(encoder.device)
        self._named = {pairs: _named(rows, pairs=pairs) for pairs in (False, True)}
        words = max(len(text.readable) for text in texts)
        of_piece, partners = np.zeros((len(texts), length), dtype=np.int64), np.zeros((len(texts), words), dtype=np.bool_)
        for row, text in enumerate(texts):
            of_piece[row, : len(text.of_piece)], partners[row, : len(text.readable)] = text.of_piece, text.readable
        places = np.repeat(list(rows), [len(text.queries) for text in rows.values()])
        queries = np.concatenate([text.queries for text in rows.values()])
        allowed = partners[places]
        allowed[np.arange(len(places)), queries] = False
        drawn = [self._named[kind][0][:, 0].copy() for kind in (False, True)]
        placed = place_arrays(encoder.device, of_piece[places], ~allowed, queries, _pairs(rows), *drawn)
        self._of_piece, self._refused, self._queries, self._pairs = placed[:4]
        self._drawn = {False: placed[4], True: placed[5]}

    def count(self, chosen: UnitSet) -> int:
        """Returns the places of a set's units."""
        return len(self._named[chosen.pairs][1])

    def named(self, chosen: UnitSet) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns where the drawn places are in the sample, and all places."""
        drawn, places = self._named[chosen.pairs]
        return drawn[:, 1], places

    def vectors(self, vectors: torch.Tensor) -> torch.Tensor:
        """Returns the mean vector of each word that is a place, float32 [places, size]; vectors: [rows, length, size]."""
        return self._join(vectors.flatten(0, 1))

    def weights(self, maps: torch.Tensor) -> torch.Tensor:
        """Returns the weights from each place to the words of its text, [places, heads, words]: the mean over the pieces of the
        place, the sum over those of the other word. maps: [rows, heads, length, length]."""
        heads, length = maps.shape[1:3]
        lines = self._join(maps.transpose(1, 2).flatten(0, 1).flatten(1)).view(-1, heads, length)
        weights = lines.new_zeros((len(lines), heads, self._refused.shape[1]))
        return weights.scatter_add_(2, self._of_piece[:, None].expand_as(lines), lines)

    def heads(self, chosen: UnitSet, weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the values of a set's heads at each of its places, [places, heads], and the partner at each, int64."""
        weights = chosen.some(weights)
        if chosen.pairs:
            first, second = self._pairs.unbind(dim=1)
            return weights[first, :, second], second[:, None].expand(-1, weights.shape[1])
        values, partners = weights.masked_fill(self._refused[:, None], -1.0).max(dim=2)
        return values.clamp(min=0), torch.where(values < 0, self._queries[:, None], partners)

    def reduce(self, number: int, values: torch.Tensor, partners: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
        """Returns the tensors of `Found` for values [places, units]."""
        chosen, count = self._search.sets[number], values.shape[1]
        drawn = self._drawn[chosen.pairs]
        flat = self._largest(number, values)
        empty = torch.zeros(0, dtype=torch.int64, device=values.device)
        squares = values * values
        return (
            torch.stack([values.sum(dim=0), squares.sum(dim=0)]),
            chosen.bins.count(values, squares),
            flat,
            values.flatten()[flat],
            empty if partners is None else partners[flat // count, flat % count],
            values[drawn],
            empty if partners is None else partners[drawn],
        )

    def _largest(self, number: int, values: torch.Tensor) -> torch.Tensor:
        """Returns place * units + unit of the values that may be among the largest of their units, int64."""
        best, bounds = self._search.best, self._search.bounds[number]
        if values.device.type == "cpu" and np.isfinite(bounds).all():
            flat = np.flatnonzero(values.numpy() >= bounds)
            if len(flat) <= MOST_CANDIDATES * best * values.shape[1]:
                return torch.from_numpy(flat)
        return largest(values, best)


def largest(values: torch.Tensor, best: int) -> torch.Tensor:
    """Returns place * units + unit, int64, of the largest values of each unit, of equal ones the first.

    values: float32 [places, units]."""
    places, units = values.shape
    at_a_time = max(1, size_limits(values.device).map_bytes // (8 * places))
    last = torch.arange(places - 1, -1, -1, dtype=torch.int64, device=values.device)[:, None]
    found = []
    for begin in range(0, units, at_a_time):
        # As integers, the bits of floats that are not negative are in their order; those of negative ones in the reverse.
        bits = (values[:, begin : begin + at_a_time] + 0.0).view(torch.int32)
        ordered = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).long()
        keys = ((ordered << 32) | last).topk(min(best, places), dim=0).values
        chosen = places - 1 - (keys & 0xFFFFFFFF)
        found.append(
            (chosen * units + torch.arange(begin, begin + keys.shape[1], dtype=torch.int64, device=values.device)).flatten()
        )
    return torch.cat(found)


def _named(rows: Mapping[int, TextPlaces], *, pairs: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the drawn places of a batch, index among its places and in the sample, [n, 2]; and all of its places."""
    words = [text.pairs[:, 0] if pairs else text.queries for text in rows.values()]
    counts = list(map(len, words))
    of_texts = zip(rows.values(), accumulate(counts, initial=0), strict=False)
    drawn = [text.drawn[pairs] + np.array([before, 0]) for text, before in of_texts if pairs in text.drawn]
    ranks = np.repeat([text.rank for text in rows.values()], counts)
    return np.concatenate([PAIRS, *drawn]), (ranks << PLACE_BITS) | np.concatenate(words)


def _pairs(rows: Mapping[int, TextPlaces]) -> NDArray[np.int64]:
    """Returns the pairs of a batch: the place of the first word among all words that are places, and the second, [n, 2]."""
    befores = accumulate((len(text.queries) for text in rows.values()), initial=0)
    found = [
        np.stack([before + np.searchsorted(text.queries, text.pairs[:, 0]), text.pairs[:, 1]], axis=1)
        for text, before in zip(rows.values(), befores, strict=False)
        if len(text.pairs)
    ]
    return np.concatenate([PAIRS, *found])
