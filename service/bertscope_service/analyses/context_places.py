"""Finds the places of a search for contexts, words or pairs of words, and draws a sample of them that merges over calls."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.observers.contexts import PLACE_BITS, TextPlaces
from bertscope_service.analyses.observers.pooling import Pooling, Units
from bertscope_service.analyses.observers.word_maps import NOWHERE
from bertscope_service.analyses.relations import LinkedText
from bertscope_service.analyses.texts import read_inputs
from bertscope_service.analyses.words import Span, align, positions_of
from bertscope_service.checkpoints.tokenized_text import Piece, TokenizedText
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.sequences import TokenSequence

NONE: NDArray[np.int64] = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class ContextText:
    """A text of a corpus: its number there, and its words and pairs, which are none for the tokenizer's own words."""

    id: int
    linked: LinkedText


@dataclass(frozen=True, slots=True)
class PlaceQuery:
    """The places that are asked for. words: those that are places, folded; none means all. pairs: pairs are places, too.
    sample: the most that are drawn."""

    texts: Sequence[ContextText]
    pieces: bool
    words: frozenset[str]
    pairs: bool
    sample: int
    seed: int
    truncate: bool


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Drawn places, ascending in their keys, uint64 [n]; `count` is that of all places."""

    count: int
    places: NDArray[np.int64]
    partners: NDArray[np.int64]
    keys: NDArray[np.uint64]


class Corpus:
    """The texts of a request that have a place, in the order of their numbers, and the samples of their words and pairs.

    Raises InvalidArgument for a text that is too long or holds no token.
    """

    def __init__(self, query: PlaceQuery, tokenizer: TextTokenizer) -> None:
        self.tokens = self.truncated = self.skipped_pairs = 0
        self.rows: list[tuple[TokenSequence, TextPlaces]] = []
        self.spans: list[NDArray[np.int64]] = []
        order = np.argsort([text.id for text in query.texts], kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        self.ids = np.array([query.texts[index].id for index in order.tolist()], dtype=np.uint64)
        found: dict[int, tuple[TokenSequence, TextPlaces, NDArray[np.int64]]] = {}
        inputs = [text.linked.input for text in query.texts]
        marked = [text.linked.words for text in query.texts]
        read = read_inputs(tokenizer, inputs, "texts", ".text.input", truncate=query.truncate, words=marked)
        for index, tokenized in enumerate(read):
            self.tokens += len(tokenized)
            self.truncated += tokenized.truncated > 0
            number = int(rank[index])
            found[number] = (tokenized.sequence, *self._read(number, query.texts[index].linked, tokenized, tokenizer, query))
        texts = [found[number] for number in range(len(found))]
        self.spans = [spans for _, _, spans in texts]
        places = [one for _, one, _ in texts]
        self.words = self._draw(query, places, pairs=False)
        self.pairs = self._draw(query, places, pairs=True)
        self.rows = [(sequence, one) for sequence, one, _ in texts if len(one.queries) or len(one.pairs)]

    def _read(
        self, number: int, text: LinkedText, tokenized: TokenizedText, tokenizer: TextTokenizer, query: PlaceQuery
    ) -> tuple[TextPlaces, NDArray[np.int64]]:
        """Returns the places of a text, and start, end and segment of each of its words, [words, 3]."""
        pieces = tokenized.pieces(tokenizer)
        of_piece, given = np.arange(len(pieces)), tuple[int, ...]()
        if not query.pieces:
            layout = align(pieces, text.words)
            of_piece, given = layout.of_piece, layout.places
        groups = positions_of(of_piece.tolist(), int(of_piece.max()) + 1)
        spans = _spans(pieces, groups, dict(zip(given, text.words, strict=True)))
        readable = np.array([not pieces[group[0]].special for group in groups])
        asked = readable & _asked(tokenized, spans, query.words)
        pairs = self._pairs(text.pairs, given, asked) if query.pairs else NONE.reshape(0, 2)
        units = Units.made([groups[word] for word in np.flatnonzero(asked)], Pooling.MEAN)
        return TextPlaces(number, of_piece, readable, np.flatnonzero(asked), units, pairs), spans

    def _pairs(self, pairs: NDArray[np.int64], given: Sequence[int], asked: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Returns the pairs whose words have pieces, and whose first word is asked for, ascending, [pairs, 2]."""
        found = np.array(given, dtype=np.int64)[pairs[:, 1:]] if len(pairs) else NONE.reshape(0, 2)
        there = (found != NOWHERE).all(axis=1)
        self.skipped_pairs += int((~there).sum())
        found = found[there]
        return np.unique(found[asked[found[:, 0]]], axis=0)

    def _draw(self, query: PlaceQuery, texts: Sequence[TextPlaces], *, pairs: bool) -> Sample:
        """Draws the sample, and tells each text which of its places are in it."""
        counts = [len(text.pairs if pairs else text.queries) for text in texts]
        rank = np.repeat(np.arange(len(texts)), counts)
        chosen = [text.pairs if pairs else np.stack([text.queries, text.queries], axis=1) for text in texts]
        words = np.concatenate(chosen) if chosen else NONE.reshape(0, 2)
        keys = place_keys(query.seed, self.ids[rank], words[:, 0], words[:, 1])
        order = np.lexsort((words[:, 1], words[:, 0], rank, keys))[: query.sample]
        ends = np.cumsum(counts)
        for number in np.unique(rank[order]).tolist():
            own = np.flatnonzero(rank[order] == number)
            texts[number].drawn[pairs] = np.stack([order[own] - (ends[number] - counts[number]), own], axis=1)
        first, second = (rank[order] << PLACE_BITS) | words[order].T
        return Sample(len(keys), first, second, keys[order])


def place_keys(seed: int, texts: NDArray[np.uint64], first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Returns the key of each place: a hash of the seed, the number of its text, and its word, or both words of a pair.

    It is the last step of SplitMix64 (Steele et al. 2014, figure 16) after each part, so that every set of places has the same
    chance to have the lowest keys, whichever call its texts are in.
    """
    keys = np.full(len(texts), seed, dtype=np.uint64)
    for part in (texts, first.astype(np.uint64), second.astype(np.uint64)):
        keys = keys + part * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x9E3779B97F4A7C15)
        keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        keys = keys ^ (keys >> np.uint64(31))
    return keys


def _spans(pieces: Sequence[Piece], groups: Iterable[Sequence[int]], given: dict[int, Span]) -> NDArray[np.int64]:
    """Returns start, end and segment of each word: the caller's where that is its own, else of its pieces."""
    rows = []
    for number, group in enumerate(groups):
        span = given.get(number) or Span(pieces[group[0]].start, pieces[group[-1]].end, pieces[group[0]].segment)
        rows.append((span.start, span.end, span.segment))
    return np.array(rows, dtype=np.int64)


def _asked(tokenized: TokenizedText, spans: NDArray[np.int64], words: Collection[str]) -> NDArray[np.bool_]:
    """Returns which words are asked for, [words]."""
    if not words:
        return np.ones(len(spans), dtype=np.bool_)
    written = [tokenized.texts[segment][start:end].strip().casefold() for start, end, segment in spans.tolist()]
    return np.array([word in words for word in written], dtype=np.bool_)
