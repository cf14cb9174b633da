"""Finds the places of a search for contexts, words or pairs of words, and draws a sample of them that merges over calls."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.aligned_words import AlignedTexts, aligned
from bertscope_service.analyses.observers.context_units import PAIRS
from bertscope_service.analyses.observers.contexts import PLACE_BITS, TextPlaces
from bertscope_service.analyses.observers.pooling import Pooling, Units
from bertscope_service.analyses.observers.word_maps import NOWHERE, SPECIAL
from bertscope_service.analyses.relations import LinkedText
from bertscope_service.analyses.texts import read_inputs
from bertscope_service.checkpoints.tokenized_text import TokenizedText
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.sequences import TokenSequence


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
        order = np.argsort([text.id for text in query.texts], kind="stable")
        self.ids = np.array([query.texts[index].id for index in order.tolist()], dtype=np.uint64)
        inputs = [text.linked.input for text in query.texts]
        marked = [text.linked.words for text in query.texts]
        read = read_inputs(tokenizer, inputs, "texts", ".text.input", truncate=query.truncate, words=marked)
        ranks = iter(np.argsort(order).tolist())
        linked = iter([text.linked.pairs for text in query.texts])
        found = [
            one
            for texts, words in aligned(read, None if query.pieces else marked)
            for one in self._read(texts, words, ranks, linked, query)
        ]
        found.sort(key=lambda one: one[1].rank)
        self.spans = [spans for _, _, spans in found]
        places = [one for _, one, _ in found]
        self.words = self._draw(query, places, pairs=False)
        self.pairs = self._draw(query, places, pairs=True)
        self.rows = [(sequence, one) for sequence, one, _ in found if len(one.queries) or len(one.pairs)]

    def _read(
        self,
        texts: Sequence[TokenizedText],
        words: AlignedTexts,
        ranks: Iterator[int],
        linked: Iterator[NDArray[np.int64]],
        query: PlaceQuery,
    ) -> Iterator[tuple[TokenSequence, TextPlaces, NDArray[np.int64]]]:
        """Yields the tokens of each text, its places, and start, end and segment of each of its words, [words, 3]."""
        self.tokens += len(words.text)
        self.truncated += sum(text.truncated > 0 for text in texts)
        readable = words.words[:, 2] != SPECIAL
        asked = readable & _asked(texts, words, query.words)
        read, unit = asked[words.of_token], np.cumsum(asked) - 1
        for text, (tokens, own, _), of_text in zip(texts, words.of_texts, words.each(), strict=True):
            positions, queries = np.flatnonzero(read[tokens]), np.flatnonzero(asked[own])
            units = unit[words.of_token[tokens][positions]]
            pairs = self._pairs(next(linked), of_text.places, asked[own]) if query.pairs else PAIRS
            joined = Units(positions, units - units[:1], len(queries), Pooling.MEAN)
            # The tokenizer's own record of each token, some ten times as large, is freed here.
            sequence = TokenSequence(text.sequence.ids, text.sequence.segments, partial(words.starts.__getitem__, tokens))
            places = TextPlaces(next(ranks), of_text.of_piece, readable[own], queries, joined, pairs)
            yield sequence, places, words.words[own]

    def _pairs(self, pairs: NDArray[np.int64], given: Sequence[int], asked: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Returns the pairs whose words have pieces, and whose first word is asked for, ascending, [pairs, 2]."""
        if not len(pairs):
            return PAIRS
        found = np.array(given, dtype=np.int64)[pairs[:, 1:]]
        there = (found != NOWHERE).all(axis=1)
        self.skipped_pairs += int((~there).sum())
        found = found[there]
        return np.unique(found[asked[found[:, 0]]], axis=0)

    def _draw(self, query: PlaceQuery, texts: Sequence[TextPlaces], *, pairs: bool) -> Sample:
        """Draws the sample, and tells each text which of its places are in it."""
        chosen = [text.pairs if pairs else text.queries[:, None] for text in texts]
        counts = list(map(len, chosen))
        rank = np.repeat(np.arange(len(texts)), counts)
        words = np.concatenate(chosen) if chosen else PAIRS
        first, second = words[:, 0], words[:, -1]
        keys = place_keys(query.seed, self.ids[rank], first, second)
        order = np.lexsort((second, first, rank, keys))[: query.sample]
        ends = np.cumsum(counts)
        for number in np.unique(rank[order]).tolist():
            own = np.flatnonzero(rank[order] == number)
            texts[number].drawn[pairs] = np.stack([order[own] - (ends[number] - counts[number]), own], axis=1)
        text = rank[order] << PLACE_BITS
        return Sample(len(keys), text | first[order], text | second[order], keys[order])


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


def _asked(texts: Sequence[TokenizedText], words: AlignedTexts, asked: Collection[str]) -> NDArray[np.bool_]:
    """Returns which words are asked for, [words]."""
    if not asked:
        return np.ones(len(words.words), dtype=np.bool_)
    places = zip(words.text[words.firsts].tolist(), words.words.tolist(), strict=True)
    written = (texts[text].texts[segment][start:end] for text, (start, end, segment) in places)
    return np.array([word.strip().casefold() in asked for word in written], dtype=np.bool_)
