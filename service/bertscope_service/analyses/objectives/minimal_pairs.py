"""Share of sentence pairs whose better sentence gets the higher pseudo-log-likelihood, and by how much it is higher."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.masked_rows import MaskedRows, ScoredWord, Scoring, scorable_words
from bertscope_service.analyses.metrics import Metric
from bertscope_service.analyses.observers.predictions import GoldScores, LossObserver
from bertscope_service.analyses.texts import read_texts
from bertscope_service.checkpoints.tokenized_text import TokenizedText
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.observer import Observer
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import InvalidArgument

FIELD = "objective.minimal_pairs.pairs"

MAX_ROW_TOKENS = 20_000_000
"""Maximum number of tokens in the rows of one query, which has a row for each token of each sentence: 10,000 pairs of
30-token sentences."""


@dataclass(frozen=True, slots=True)
class MinimalPairsQuery:
    """A query for sentence pairs; see bertscope.v1.MinimalPairs."""

    metrics: ClassVar[tuple[Metric, ...]] = (Metric.ACCURACY, Metric.SCORE_DIFFERENCE)
    has_loss: ClassVar[bool] = False

    pairs: tuple[tuple[str, str], ...]
    scoring: Scoring
    truncate: bool


class MinimalPairsObjective:
    """The rows that score the sentences; the two of a pair share those that are the same. Rows are built on access.

    A sentence's score is the sum over its pieces of ln P(piece | the rest, piece masked) (Salazar et al. 2020). Special tokens
    and the caller's masks are not scored. A pair counts if `good` scores strictly higher; ties don't. Raises InvalidArgument
    for sentences that are too long or hold nothing to score, and for more than MAX_ROW_TOKENS.
    """

    metrics = MinimalPairsQuery.metrics
    losses: Sequence[LossObserver] = ()
    skipped = 0

    def __init__(self, query: MinimalPairsQuery, tokenizer: TextTokenizer) -> None:
        if tokenizer.mask_id is None:
            raise ValueError("the tokenizer has no mask token")
        self._tokenizer = tokenizer
        self._masked = MaskedRows(query.scoring, tokenizer.mask_id)
        self.items, self.truncated = len(query.pairs), 0
        goods = read_texts(tokenizer, [good for good, _ in query.pairs], FIELD, ".good", truncate=query.truncate)
        bads = read_texts(tokenizer, [bad for _, bad in query.pairs], FIELD, ".bad", truncate=query.truncate)
        for index in range(self.items):
            good = self._read(next(goods), f"{FIELD}[{index}].good")
            bad = self._read(next(bads), f"{FIELD}[{index}].bad")
            self._masked.add([good, bad])
            if self._masked.tokens > MAX_ROW_TOKENS:
                message = (
                    f"these pairs make more than {MAX_ROW_TOKENS} tokens of work for each set of heads; send fewer or shorter "
                    "ones"
                )
                raise InvalidArgument(FIELD, message, "TOO_MUCH_WORK", limit=MAX_ROW_TOKENS)
        self._masked.sort()
        self.pieces = self._masked.pieces
        self.sequences: Sequence[TokenSequence] = self._masked.sequences
        self.observers: Sequence[Observer] = self._masked.observers

    def _read(self, tokenized: TokenizedText, field: str) -> tuple[TokenSequence, list[ScoredWord]]:
        words = scorable_words(tokenized, self._tokenizer)
        if not words:
            message = f"{field} holds no token of this model's vocabulary that could be scored; write some text"
            raise InvalidArgument(field, message, "EMPTY_TEXT")
        self.truncated += bool(tokenized.truncated)
        return tokenized.sequence, words

    def later_observers(self, untouched: Sequence[GoldScores]) -> Sequence[Observer]:
        return self.observers

    def measure(self, seen: Sequence[GoldScores]) -> NDArray[np.float64]:
        """Returns [2, pairs]: 1 where the better sentence scores strictly higher, else 0; and by how many nats it is higher.

        Equal sentences tie, as they share all rows.
        """
        sums = self._masked.sums(self._masked.logs(seen))
        differences = np.asarray(sums[0::2], dtype=np.float64) - sums[1::2]
        return np.stack([differences > 0, differences])
