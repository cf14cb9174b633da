"""Rows that predict the pieces of texts with masks in their places: the basis of pseudo-log-likelihoods.

Rows of a text share no layer: a bidirectional model's hidden states depend on the mask at every position from the first layer
on, so each row runs whole. Only rows that are the same in several texts run once, such as that of the one word in which the
sentences of a minimal pair differ.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import count

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.lazy_sequence import LazySequence
from bertscope_service.analyses.observers.predictions import GoldObserver, GoldScores
from bertscope_service.analyses.texts import check_finite, words_of
from bertscope_service.checkpoints.tokenized_text import TokenizedText
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.sequences import TokenSequence


class Scoring(Enum):
    """The pieces that are masked beside the one that is scored; see bertscope.v1.PseudoLogLikelihood."""

    ORIGINAL = "original"
    WITHIN_WORD = "within_word"
    WHOLE_WORD = "whole_word"


@dataclass(frozen=True, slots=True)
class ScoredWord:
    """A word of a text, by positions: all of its pieces, which are consecutive, and those that are scored, at least one."""

    pieces: tuple[int, ...]
    scored: tuple[int, ...]

    def masks(self, scoring: Scoring) -> Iterator[tuple[int, int, tuple[int, ...]]]:
        """Yields the rows that score the word: the first mask, one past the last, and the positions that are read."""
        end = self.pieces[-1] + 1
        if scoring is Scoring.WHOLE_WORD:
            yield self.pieces[0], end, self.scored
            return
        for place in self.scored:
            yield place, end if scoring is Scoring.WITHIN_WORD else place + 1, (place,)


def scorable_words(tokenized: TokenizedText, tokenizer: TextTokenizer) -> list[ScoredWord]:
    """Returns the words of a text without special tokens, also those that the caller wrote, such as masks."""
    ids, which = tokenized.sequence.ids, tokenized.encoding.sequence_ids
    special = {token for token, text in zip(ids, which, strict=True) if text is None} | {tokenizer.mask_id}
    return [ScoredWord(places, places) for places in words_of(tokenized) if ids[places[0]] not in special]


class MaskedRows:
    """The different rows that score the words of texts, shortest first; they are built on access.

    Rows are the same if they have the same masks among the same pieces and segments, and are read at the same positions. A row
    that several texts need reads the pieces of each.
    """

    def __init__(self, scoring: Scoring, mask_id: int) -> None:
        self._scoring, self._mask_id = scoring, mask_id
        self._ids: list[NDArray[np.int64]] = []
        self._segments: list[NDArray[np.int64]] = []
        # Of each row: a text that has it, the range of its masks, the positions to read, and the pieces to read there.
        self._text, self._start, self._stop = array("q"), array("q"), array("q")
        self._places: list[tuple[int, ...]] = []
        self._golds: list[list[tuple[int, ...]]] = []
        # Of each scored piece: its row, its place among the positions that the row reads, and among the pieces read there.
        self._row, self._place, self._column = array("q"), array("q"), array("q")
        self._text_pieces: list[int] = []
        self._order: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.tokens = 0
        """The tokens of all rows."""

    def add(self, texts: Iterable[tuple[TokenSequence, Sequence[ScoredWord]]]) -> None:
        """Adds texts with their words. Only texts that are added together have rows in common."""
        befores, afters = _Runs(), _Runs()
        known: dict[tuple[int, int, int, int, tuple[int, ...]], int] = {}
        for sequence, words in texts:
            ids, segments = (np.asarray(values, dtype=np.int64) for values in (sequence.ids, sequence.segments))
            self._ids.append(ids)
            self._segments.append(segments)
            tokens = list(zip(ids.tolist(), segments.tolist(), strict=True))
            before, after = befores.of(tokens), afters.of(tokens[::-1])[::-1]
            first = len(self._row)
            for word in words:
                for start, stop, places in word.masks(self._scoring):
                    row = known.setdefault((start, stop, before[start], after[stop], places), len(self._text))
                    if row == len(self._text):
                        self._new_row(start, stop, places)
                    self._read(row, tuple(ids[list(places)].tolist()))
            self._text_pieces.append(len(self._row) - first)

    def _new_row(self, start: int, stop: int, places: tuple[int, ...]) -> None:
        self._text.append(len(self._ids) - 1)
        self._start.append(start)
        self._stop.append(stop)
        self._places.append(places)
        self._golds.append([])
        self.tokens += len(self._ids[-1])

    def _read(self, row: int, golds: tuple[int, ...]) -> None:
        """Notes that a text's next pieces are read in a row, at all of its positions."""
        columns = self._golds[row]
        if golds not in columns:
            columns.append(golds)
        column = columns.index(golds)
        for place in range(len(golds)):
            self._row.append(row)
            self._place.append(place)
            self._column.append(column)

    def sort(self) -> None:
        """Orders the rows by length, so that neighbours need little padding; to be called after the last text."""
        self._order = np.argsort(self._unsorted_lengths(), kind="stable")

    def _unsorted_lengths(self) -> NDArray[np.int64]:
        return np.array([len(ids) for ids in self._ids], dtype=np.int64)[np.frombuffer(self._text, dtype=np.int64)]

    def __len__(self) -> int:
        return len(self._text)

    @property
    def pieces(self) -> int:
        """The number of scored pieces of all texts."""
        return len(self._row)

    @property
    def text_pieces(self) -> list[int]:
        """The number of scored pieces of each text."""
        return self._text_pieces

    @property
    def lengths(self) -> list[int]:
        """The tokens of each row."""
        lengths: list[int] = self._unsorted_lengths()[self._order].tolist()
        return lengths

    @property
    def sequences(self) -> Sequence[TokenSequence]:
        """The rows."""
        return LazySequence(len(self), self.sequence)

    @property
    def observers(self) -> Sequence[GoldObserver]:
        """The observer of each row."""
        return LazySequence(len(self), self.observer)

    def sequence(self, index: int) -> TokenSequence:
        """Builds a row."""
        row = self._order[index]
        text = self._text[row]
        ids = self._ids[text].copy()
        ids[self._start[row] : self._stop[row]] = self._mask_id
        return TokenSequence(ids, self._segments[text])

    def observer(self, index: int) -> GoldObserver:
        """Builds the observer of a row."""
        row = self._order[index]
        return GoldObserver(self._places[row], np.array(self._golds[row], dtype=np.int64).T.copy())

    def logs(self, seen: Sequence[GoldScores]) -> NDArray[np.float64]:
        """Returns the natural logarithm of the probability of each scored piece, text by text, from what the observers saw.

        Raises FailedPrecondition if one is not finite.
        """
        if not seen:
            return np.zeros(0)
        flat = np.concatenate([scores.logs.ravel() for scores in seen])
        check_finite([flat])
        sizes = np.array([scores.logs.size for scores in seen], dtype=np.int64)
        starts, columns = np.zeros(len(seen), dtype=np.int64), np.zeros(len(seen), dtype=np.int64)
        starts[self._order] = np.cumsum(sizes) - sizes
        columns[self._order] = [scores.logs.shape[1] for scores in seen]
        row, place, column = (np.frombuffer(values, dtype=np.int64) for values in (self._row, self._place, self._column))
        return np.minimum(flat[starts[row] + place * columns[row] + column].astype(np.float64), 0.0)

    def sums(self, logs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the sum of each text's logarithms; 0 for a text without a scored piece."""
        texts = np.repeat(np.arange(len(self._text_pieces)), self._text_pieces)
        return np.bincount(texts, weights=logs, minlength=len(self._text_pieces)).astype(np.float64)


class _Runs:
    """Numbers for runs of tokens: two runs have the same number only if they are the same."""

    def __init__(self) -> None:
        numbers = count(1)
        self._known: defaultdict[tuple[int, tuple[int, int]], int] = defaultdict(lambda: next(numbers))

    def of(self, tokens: Sequence[tuple[int, int]]) -> list[int]:
        """Returns the number of the first 0, 1, ... tokens, each an id and a segment."""
        found = [0]
        for token in tokens:
            found.append(self._known[found[-1], token])
        return found
