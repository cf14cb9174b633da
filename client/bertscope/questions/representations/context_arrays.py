"""Reads the reply of FindContexts as arrays, and merges those of several calls."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from bertscope.errors import InvalidReply
from bertscope.v1 import representation_contexts_pb2 as contexts_pb2
from bertscope.values.merging import counts, numbers
from bertscope.values.positions import Span
from bertscope.values.validation import TextOrPair

Integers = npt.NDArray[np.int64]
KINDS = {
    contexts_pb2.ContextUnits.KIND_HEAD: "head",
    contexts_pb2.ContextUnits.KIND_ACTIVATION: "neuron",
    contexts_pb2.ContextUnits.KIND_DIRECTION: "direction",
}
DIRECTION = contexts_pb2.ContextUnits.KIND_DIRECTION
JOINED = ("units", "directions", "sums", "squares", "histograms", "best_values", "best_words", "best_partners")
JOINED_SAMPLE = ("sample_values", "sample_partners")


@dataclass(frozen=True, eq=False)
class Places:
    """The number of all places of some units, and those that were drawn: words, keys and, of pairs, partners, [drawn] each."""

    count: int
    words: Integers
    keys: npt.NDArray[np.uint64]
    partners: Integers


@dataclass(frozen=True, eq=False)
class UnitArrays:
    """Units of one kind and layer, or of one set of directions: see bertscope.v1.ContextUnits. Partners are [units, 0] where
    there are none; `directions` are the indices of directions among those given, [units]."""

    kind: str
    layer: int
    places: int
    edges: npt.NDArray[np.float64]
    units: Integers
    directions: Integers
    sums: npt.NDArray[np.float64]
    squares: npt.NDArray[np.float64]
    histograms: Integers
    best_values: npt.NDArray[np.float32]
    best_words: Integers
    best_partners: Integers
    sample_values: npt.NDArray[np.float32]
    sample_partners: Integers

    def partners_of_best(self, row: int) -> Integers | None:
        """Returns the partners at a unit's best places; None for other units than heads."""
        return self.best_partners[row] if self.kind == "head" else None

    def partners_of_sample(self, row: int, places: Places) -> Integers | None:
        """Returns the partners at the places that were drawn, likewise."""
        if self.kind != "head":
            return None
        return places.partners if len(places.partners) else self.sample_partners[row]


@dataclass(frozen=True, eq=False)
class Found:
    """The result of a search: arrays of units, their places, and the words that both name: text, segment, start and end, int64
    [words, 4]. texts: those of these words, by their numbers."""

    sets: Sequence[UnitArrays]
    places: Sequence[Places]
    words: Integers
    texts: Mapping[int, TextOrPair]

    def text_and_span(self, word: int) -> tuple[int, TextOrPair, Span]:
        """Returns the number of a word's text, the text, and the word."""
        number, segment, start, end = self.words[word].tolist()
        return number, self.texts[number], Span(start, end, segment)


class ContextReader:
    """Reads the messages of one call. `texts`: those that were sent, by their numbers; `sets`: of each set of directions in the
    request, the indices of its directions among those given; `asked`: the numbers of the heads or neurons that were requested,
    by kind and layer, none for all of it."""

    def __init__(
        self,
        texts: Mapping[int, TextOrPair],
        sets: Sequence[Sequence[int]],
        best: int,
        asked: Mapping[tuple[int, int], Collection[int]] = MappingProxyType({}),
    ) -> None:
        self._texts, self._sets, self._best = texts, [np.array(one, np.int64) for one in sets], best
        self._asked = dict(asked) | {(DIRECTION, index): range(len(one)) for index, one in enumerate(sets)}
        self.summary: contexts_pb2.ContextsSummary | None = None
        self._places: list[Places] = []
        self._words: list[Integers] = []
        self._units: dict[tuple[int, int], list[UnitArrays]] = {}

    def add(self, message: contexts_pb2.FindContextsResponse) -> int | None:
        """Processes one message. Returns the texts that were run, if it says so."""
        kind = message.WhichOneof("event")
        if kind == "progress":
            return message.progress.done
        if kind == "summary":
            self.summary = message.summary
            self._places = [_places(one) for one in message.summary.places]
        elif kind == "words":
            found = message.words
            columns = (found.texts, found.segments, found.starts, found.ends)
            if len({len(column) for column in columns}) != 1 or not set(found.texts) <= self._texts.keys():
                raise InvalidReply("the server sent words of texts that were not requested, or only parts of words")
            self._words.append(np.array(columns, np.int64).T)
        elif kind == "units":
            self._units.setdefault((message.units.kind, message.units.layer), []).append(self._read(message.units))
        return None

    def end(self) -> Found:
        """Returns what the call found. Raises InvalidReply if the stream ended too early, or names words that were not sent."""
        if self.summary is None or sum(map(len, self._words)) != self.summary.words or not self._units:
            raise InvalidReply("the server ended the search without its result")
        words = np.concatenate(self._words) if self._words else np.zeros((0, 4), np.int64)
        sets = [_joined(parts) for parts in self._units.values()]
        self._check_units(sets)
        named = [getattr(one, name) for one in sets for name in ("best_words", "best_partners", "sample_partners")]
        named += [array for one in self._places for array in (one.words, one.partners)]
        if any(array.size and array.max() >= len(words) for array in named):
            raise InvalidReply("the server sent a unit with a word that it did not send")
        used = {number: self._texts[number] for number in np.unique(words[:, 0]).tolist()}
        return Found(sets, self._places, words, used)

    def _check_units(self, sets: Sequence[UnitArrays]) -> None:
        """Raises InvalidReply unless each unit that was requested came once."""
        found = {key: np.sort(one.units) for key, one in zip(self._units, sets, strict=True)}
        for key, units in found.items():
            wanted = sorted(self._asked.get(key, ())) or range(len(units))
            if not np.array_equal(units, wanted):
                raise InvalidReply("the server sent a unit twice, or not all units that were requested")
        if missing := self._asked.keys() - found.keys():
            raise InvalidReply(f"the server sent no unit of {len(missing)} layers or sets that were requested")

    def _read(self, message: contexts_pb2.ContextUnits) -> UnitArrays:
        kind = KINDS.get(message.kind)
        if kind is None or message.places >= len(self._places):
            raise InvalidReply("the server sent units of another kind, or at places that it did not describe")
        places, count = self._places[message.places], len(message.units)
        best, heads, drawn = min(self._best, places.count), kind == "head", len(places.keys)
        units = counts(message.units, (count,), "units")
        pairs = heads and not len(places.partners)
        directions = np.zeros(0, np.int64)
        if kind == "direction":
            if message.layer >= len(self._sets) or (count and units.max() >= len(self._sets[message.layer])):
                raise InvalidReply("the server sent a direction that was not requested")
            directions = self._sets[message.layer][units]
        return UnitArrays(
            kind,
            message.layer,
            message.places,
            np.array(message.edges, np.float64),
            units,
            directions,
            numbers(message.sums, (count,), "sums"),
            numbers(message.squares, (count,), "squares"),
            counts(message.histograms, (count, len(message.edges) + 1), "histograms"),
            numbers(message.best_values, (count, best), "best values").astype(np.float32),
            counts(message.best_words, (count, best), "best words"),
            counts(message.best_partners, (count, best if heads else 0), "partners"),
            numbers(message.sample_values, (count, drawn), "values").astype(np.float32),
            counts(message.sample_partners, (count, drawn if pairs else 0), "partners"),
        )


def _places(message: contexts_pb2.ContextPlaces) -> Places:
    keys, partners = np.array(message.keys, np.uint64), np.array(message.partners, np.int64)
    if len(message.words) != len(keys) or len(partners) not in (0, len(keys)):
        raise InvalidReply("the server sent drawn places without their keys")
    return Places(message.count, np.array(message.words, np.int64), keys, partners)


def _joined(parts: Sequence[UnitArrays]) -> UnitArrays:
    """Joins units of one kind and layer that came in parts."""
    first = parts[0]
    if len(parts) == 1:
        return first
    joined: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in (*JOINED, *JOINED_SAMPLE)
    }
    return dataclasses.replace(first, **joined)


def merged(parts: Sequence[Found], best: int, sample: int) -> Found:
    """Returns what was found in all texts of several calls: the `best` places of each unit, and the `sample` lowest keys."""
    if len(parts) == 1:
        return parts[0]
    firsts = np.cumsum([0, *(len(part.words) for part in parts[:-1])]).tolist()
    words = np.concatenate([part.words for part in parts])
    drawn = [_lowest([part.places[index] for part in parts], firsts, sample) for index in range(len(parts[0].places))]
    sets = [
        _merged([part.sets[index] for part in parts], firsts, words, best, [order for _, order in drawn])
        for index in range(len(parts[0].sets))
    ]
    return _pruned(sets, [places for places, _ in drawn], words, {k: v for part in parts for k, v in part.texts.items()})


def _lowest(parts: Sequence[Places], firsts: Sequence[int], sample: int) -> tuple[Places, Integers]:
    """Returns the merged places, and which of all drawn ones, part after part, stay, in their order."""
    keys = np.concatenate([part.keys for part in parts])
    order = np.argsort(keys, kind="stable")[:sample]
    words, partners = (
        np.concatenate([getattr(part, name) + first for part, first in zip(parts, firsts, strict=True)])
        for name in ("words", "partners")
    )
    kept = Places(sum(part.count for part in parts), words[order], keys[order], partners[order] if len(partners) else partners)
    return kept, order


def _merged(
    parts: Sequence[UnitArrays], firsts: Sequence[int], words: Integers, best: int, orders: Sequence[Integers]
) -> UnitArrays:
    """Merges the same units of several calls."""
    first = parts[0]
    values = np.concatenate([part.best_values for part in parts], axis=1)
    named, partners, drawn_partners = (
        np.concatenate([getattr(part, name) + begin for part, begin in zip(parts, firsts, strict=True)], axis=1)
        for name in ("best_words", "best_partners", "sample_partners")
    )
    # Equal values: the lower text first, then the earlier word, then the earlier partner.
    second = words[partners] if partners.size else np.zeros((*named.shape, 4), np.int64)
    first_word = words[named]
    keys = (second[..., 2], second[..., 1], first_word[..., 2], first_word[..., 1], first_word[..., 0], -values)
    order = np.lexsort(keys, axis=-1)[:, :best]
    drawn = orders[first.places]
    return dataclasses.replace(
        first,
        sums=np.sum([part.sums for part in parts], axis=0),
        squares=np.sum([part.squares for part in parts], axis=0),
        histograms=np.sum([part.histograms for part in parts], axis=0),
        best_values=np.take_along_axis(values, order, axis=1),
        best_words=np.take_along_axis(named, order, axis=1),
        best_partners=np.take_along_axis(partners, order, axis=1) if partners.size else partners[:, :0],
        sample_values=np.concatenate([part.sample_values for part in parts], axis=1)[:, drawn],
        sample_partners=drawn_partners[:, drawn] if drawn_partners.size else drawn_partners[:, :0],
    )


def _pruned(sets: Sequence[UnitArrays], places: Sequence[Places], words: Integers, texts: Mapping[int, TextOrPair]) -> Found:
    """Returns what was found with only those words and texts that are named."""
    named = [getattr(one, name).ravel() for one in sets for name in ("best_words", "best_partners", "sample_partners")]
    used = np.unique(np.concatenate([*named, *(array for one in places for array in (one.words, one.partners))]))
    number = np.zeros(len(words), np.int64)
    number[used] = np.arange(len(used))
    kept = [
        dataclasses.replace(
            one, **{name: number[getattr(one, name)] for name in ("best_words", "best_partners", "sample_partners")}
        )
        for one in sets
    ]
    drawn = [dataclasses.replace(one, words=number[one.words], partners=number[one.partners]) for one in places]
    words = words[used]
    return Found(kept, drawn, words, {index: texts[index] for index in np.unique(words[:, 0]).tolist()})
