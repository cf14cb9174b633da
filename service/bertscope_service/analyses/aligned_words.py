"""Assigns the pieces of many texts to words, of the caller's or the tokenizer's, by arrays over all of these texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.observers.reading import parts_of
from bertscope_service.analyses.observers.word_maps import NOWHERE, SPECIAL, Words
from bertscope_service.analyses.texts import GROUP
from bertscope_service.analyses.words import Span
from bertscope_service.checkpoints.tokenized_text import TokenizedText

SEGMENT_SHIFT, TEXT_SHIFT = 32, 33
"""A place in texts is one number: that of the text, its segment, and the code point."""


class AlignedTexts:
    """The words of texts, special tokens included, in the order of their first pieces.

    A piece belongs to the span that holds its first character. Neighbours outside all spans are one word if they are one of
    the tokenizer's; each special token is a word by itself. spans: those of each text, ascending by segment and start, none
    overlapping another; None makes each piece a word.

    text: that of each token, `starts`: its segment, SPECIAL for a special token, and first code point, [tokens, 2]. of_token:
    its word, numbered over all texts. firsts: first token of each word; words: its first code point, one past its last, and
    segment, [words, 3], the caller's where it has named the span. places: word of each span, NOWHERE for one without a piece.
    of_texts: the tokens, the words and the spans of each text. All arrays are int64.
    """

    def __init__(self, texts: Sequence[TokenizedText], spans: Sequence[Sequence[Span]] | None) -> None:
        counts = list(map(len, texts))
        count = sum(counts)
        self.text = np.repeat(np.arange(len(texts)), counts)
        segments = chain.from_iterable(text.encoding.sequence_ids for text in texts)
        segment = np.fromiter((SPECIAL if one is None else one for one in segments), np.int64, count)
        code_points = chain.from_iterable(chain.from_iterable(text.spans for text in texts))
        start, end = np.fromiter(code_points, np.int64, 2 * count).reshape(-1, 2).T
        self.starts = np.stack([segment, np.where(segment == SPECIAL, -1, start)], axis=1)
        given = _flat(spans or ())
        held = self._held(given)
        new = np.ones(count, dtype=np.bool_) if spans is None else self._new(held, texts)
        self.of_token, self.firsts = np.cumsum(new) - 1, np.flatnonzero(new)
        lasts = np.append(self.firsts[1:], count) - 1
        self.words = np.stack([start[self.firsts], end[lasts], segment[self.firsts]], axis=1)
        self.places = np.full(len(given), NOWHERE)
        own = held[self.firsts]
        named = own != NOWHERE
        self.places[own[named]] = np.flatnonzero(named)
        self.words[named] = given[own[named]][:, [2, 3, 1]]
        numbers = self.text, self.text[self.firsts], given[:, 0]
        self.of_texts = list(zip(*(parts_of(np.bincount(one, minlength=len(texts)).tolist()) for one in numbers), strict=True))

    def _held(self, given: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the span that holds each token's first character, NOWHERE for none; given: see `_flat`."""
        if not len(given):
            return np.full(len(self.text), NOWHERE)
        segment, start = self.starts.T
        found = np.searchsorted(_place(*given[:, :3].T), _place(self.text, segment, start), side="right") - 1
        same = (given[found, 0] == self.text) & (given[found, 1] == segment) & (start < given[found, 3])
        return np.where(same & (found >= 0), found, NOWHERE)

    def _new(self, held: NDArray[np.int64], texts: Sequence[TokenizedText]) -> NDArray[np.bool_]:
        """Returns whether each token begins a word."""
        words = chain.from_iterable(text.words for text in texts)
        own = np.fromiter((NOWHERE if one is None else one for one in words), np.int64, len(held))
        columns = np.stack([self.text, self.starts[:, 0], held, np.where(held == NOWHERE, own, 0)])
        new = np.ones(len(held), dtype=np.bool_)
        new[1:] = (np.diff(columns) != 0).any(axis=0)
        new |= (held == NOWHERE) & (own == NOWHERE)
        return new

    def each(self) -> Iterator[Words]:
        """Yields the words of each text."""
        for tokens, words, spans in self.of_texts:
            places = self.places[spans]
            found = np.where(places == NOWHERE, NOWHERE, places - words.start)
            yield Words(self.of_token[tokens] - words.start, self.words[words, 2], tuple(found.tolist()))


def aligned(
    read: Iterator[TokenizedText], spans: Sequence[Sequence[Span]] | None
) -> Iterator[tuple[list[TokenizedText], AlignedTexts]]:
    """Yields texts, as many at a time as are tokenized together, with their words."""
    begin = 0
    while texts := list(islice(read, GROUP)):
        end = begin + len(texts)
        yield texts, AlignedTexts(texts, None if spans is None else spans[begin:end])
        begin = end


def _flat(spans: Sequence[Sequence[Span]]) -> NDArray[np.int64]:
    """Returns text, segment, start and end of spans, [spans, 4]."""
    rows = [(text, span.segment, span.start, span.end) for text, own in enumerate(spans) for span in own]
    return np.array(rows, dtype=np.int64).reshape(-1, 4)


def _place(text: NDArray[np.int64], segment: NDArray[np.int64], start: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns places as numbers in their order."""
    return (text << TEXT_SHIFT) + (segment << SEGMENT_SHIFT) + start
