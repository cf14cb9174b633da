"""Share of sentence pairs whose better sentence gets the higher pseudo-log-likelihood."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.ablation import Metric
from bertscope_service.analyses.observers.probes import GoldProbe, GoldScores, LossProbe
from bertscope_service.analyses.texts import check_finite, masked, read_texts, words_of
from bertscope_service.checkpoints.tokenizer import TextTokenizer, TokenizedText
from bertscope_service.encoders.base import TokenSequence
from bertscope_service.encoders.observer import Observer
from bertscope_service.errors import InvalidArgument

T = TypeVar("T")
FIELD = "objective.minimal_pairs.pairs"

MAX_ROW_TOKENS = 20_000_000
"""Maximum number of tokens in the rows of one query, which has a row for each token of each sentence: 10,000 pairs of
30-token sentences."""


@dataclass(frozen=True, slots=True)
class MinimalPairsQuery:
    """A query for sentence pairs; see bertscope.v1.MinimalPairs.

    `within_word`: also mask the later pieces of the same word (Kauf and Ivanova 2023).
    """

    metrics: ClassVar[tuple[Metric, ...]] = (Metric.ACCURACY,)
    has_loss: ClassVar[bool] = False

    pairs: tuple[tuple[str, str], ...]
    within_word: bool
    truncate: bool


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A sentence's tokens, the places at which it is scored, the end of the masks for each of those, and its first row."""

    sequence: TokenSequence
    places: tuple[int, ...]
    stops: tuple[int, ...]
    first_row: int


class MinimalPairsObjective:
    """A row for each piece of each sentence, good and bad in turn; rows are built on access.

    A sentence's score is the sum over its pieces of ln P(piece | the rest, piece masked) (Salazar et al. 2020). Special tokens
    and the caller's masks are not scored. A pair counts if `good` scores strictly higher; ties don't. Raises InvalidArgument
    for sentences that are too long or hold nothing to score, and for more than MAX_ROW_TOKENS.
    """

    metrics = MinimalPairsQuery.metrics
    losses: Sequence[LossProbe] = ()
    skipped = 0

    def __init__(self, query: MinimalPairsQuery, tokenizer: TextTokenizer) -> None:
        self._tokenizer = tokenizer
        self._sentences: list[_Sentence] = []
        self.items = len(query.pairs)
        self.truncated = self.pieces = self._row_tokens = 0
        goods = read_texts(tokenizer, [good for good, _ in query.pairs], FIELD, ".good", truncate=query.truncate)
        bads = read_texts(tokenizer, [bad for _, bad in query.pairs], FIELD, ".bad", truncate=query.truncate)
        for index in range(self.items):
            self._add(next(goods), f"{FIELD}[{index}].good", query)
            self._add(next(bads), f"{FIELD}[{index}].bad", query)
        self._sentence_of = np.repeat(np.arange(len(self._sentences)), [len(sentence.places) for sentence in self._sentences])
        self.sequences: Sequence[TokenSequence] = LazySequence(self.pieces, self._sequence)
        self.probes: Sequence[Observer] = LazySequence(self.pieces, self._probe)

    def _add(self, tokenized: TokenizedText, field: str, query: MinimalPairsQuery) -> None:
        ids = tokenized.sequence.ids
        words = [word for word in words_of(tokenized) if ids[word[0]] != self._tokenizer.mask_id]
        if not words:
            message = f"{field} holds no token of this model's vocabulary that could be scored; write some text"
            raise InvalidArgument(field, message, "EMPTY_TEXT")
        places = tuple(place for word in words for place in word)
        stops = tuple(word[-1] + 1 if query.within_word else place + 1 for word in words for place in word)
        self._row_tokens += len(places) * len(ids)
        if self._row_tokens > MAX_ROW_TOKENS:
            message = (
                f"these pairs make more than {MAX_ROW_TOKENS} tokens of work for each set of heads; send fewer or shorter ones"
            )
            raise InvalidArgument(FIELD, message, "TOO_MUCH_WORK", limit=MAX_ROW_TOKENS)
        self._sentences.append(_Sentence(tokenized.sequence, places, stops, self.pieces))
        self.pieces += len(places)
        self.truncated += bool(tokenized.truncated)

    def _at(self, row: int) -> tuple[_Sentence, int, int]:
        """Returns the sentence of a row, the piece it predicts, and the end of its masks."""
        sentence = self._sentences[self._sentence_of[row]]
        which = row - sentence.first_row
        return sentence, sentence.places[which], sentence.stops[which]

    def _sequence(self, row: int) -> TokenSequence:
        sentence, place, stop = self._at(row)
        return masked(sentence.sequence, range(place, stop), self._tokenizer)

    def _probe(self, row: int) -> GoldProbe:
        sentence, place, _ = self._at(row)
        return GoldProbe((place,), np.array([[sentence.sequence.ids[place]]], dtype=np.int64))

    def later_probes(self, untouched: Sequence[GoldScores]) -> Sequence[Observer]:
        return self.probes

    def measure(self, seen: Sequence[GoldScores]) -> NDArray[np.float64]:
        """Returns [1, pairs]: 1 where the better sentence scores strictly higher, else 0."""
        logs = np.fromiter((scores.logs.item() for scores in seen), dtype=np.float64, count=self.pieces)
        check_finite([logs])
        sums = np.bincount(self._sentence_of, weights=logs)
        # Equal sentences tie, even if their batches differ in the last digit of their scores.
        pairs = zip(self._sentences[0::2], self._sentences[1::2], strict=True)
        differ = np.array([good.sequence.ids != bad.sequence.ids for good, bad in pairs])
        return np.array([(sums[0::2] > sums[1::2]) & differ], dtype=np.float64)


class LazySequence(Sequence[T], Generic[T]):
    """A sequence whose elements are built on access: millions of rows would not fit into memory."""

    def __init__(self, count: int, make: Callable[[int], T]) -> None:
        self._count = count
        self._make = make

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[T]:
        return map(self._make, range(self._count))

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        rows = range(self._count)[index]
        return self._make(rows) if isinstance(rows, int) else LazySequence(len(rows), lambda which: self._make(rows[which]))
