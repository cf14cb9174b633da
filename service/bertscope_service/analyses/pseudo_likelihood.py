"""Pseudo-log-likelihoods of texts: sums over pieces of ln P(piece | the rest, piece masked) (Salazar et al. 2020; Kauf and
Ivanova 2023)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.masked_rows import MaskedRows, ScoredWord, Scoring, scorable_words
from bertscope_service.analyses.observers.predictions import GoldScores
from bertscope_service.analyses.observers.word_maps import NOWHERE
from bertscope_service.analyses.texts import read_named_inputs
from bertscope_service.analyses.words import Span, refuse_empty, spans_of_pieces
from bertscope_service.checkpoints.tokenized_text import Piece, TokenizedText
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.errors import InvalidArgument

PIECE_BYTES, TEXT_BYTES = 48, 32
"""The memory of a piece and of a text in a reply, and of their results."""


@dataclass(frozen=True, slots=True)
class ScoredInput:
    """A text or pair to score; see bertscope.v1.ScoredInput. `field` names it in errors; `max_words` is None for all."""

    text: str
    pair: str | None
    spans: tuple[Span, ...]
    skip_words: int
    max_words: int | None
    field: str


@dataclass(frozen=True, slots=True)
class ScoreQuery:
    """A ScoreTexts request. `max_row_tokens` is the maximum number of tokens in all rows; `field` names what is too much for
    it, and `remedy` says what to do then."""

    inputs: tuple[ScoredInput, ...]
    scoring: Scoring
    truncate: bool
    max_row_tokens: int
    pieces: bool = False
    field: str = "inputs"
    remedy: str = "send fewer texts at a time, or score a long one in parts, with skip_words and max_words"


@dataclass(frozen=True, slots=True, eq=False)
class TextScore:
    """The score of a text, nats; `logs` are those of its scored pieces, float64 [pieces]."""

    log_likelihood: float
    logs: NDArray[np.float64]


class ScorePlan:
    """The plan to score texts: their words, and the rows that predict their pieces.

    texts, words: the tokens of each text, and the words of it that are scored. masked: the rows. Raises InvalidArgument for a
    text that is too long or holds nothing to score, for a part without a piece, and for too much work.
    """

    def __init__(self, query: ScoreQuery, tokenizer: TextTokenizer) -> None:
        if tokenizer.mask_id is None:
            raise ValueError("the tokenizer has no mask token")
        self.query, self.tokenizer = query, tokenizer
        self.texts: list[TokenizedText] = []
        self.words: list[list[ScoredWord]] = []
        inputs = [(given.text, given.pair) for given in query.inputs]
        fields = [given.field for given in query.inputs]
        marked = [given.spans for given in query.inputs]
        read = read_named_inputs(tokenizer, inputs, fields, truncate=query.truncate, words=marked)
        for given, tokenized in zip(query.inputs, read, strict=True):
            self.texts.append(tokenized)
            self.words.append(_chosen(given, tokenized, tokenizer))
        self.masked = MaskedRows(query.scoring, tokenizer.mask_id)
        self.masked.add((text.sequence, words) for text, words in zip(self.texts, self.words, strict=True))
        self.masked.sort()
        self._check_work()

    def _check_work(self) -> None:
        most = self.query.max_row_tokens
        if self.masked.tokens > most:
            field, remedy = self.query.field, self.query.remedy
            message = f"{field}: more than {most} tokens of work, as a text of n tokens is run about n times; {remedy}"
            raise InvalidArgument(field, message, "TOO_MANY_TOKENS", limit=most)

    @property
    def reply_bytes(self) -> int:
        """Approximate size of the reply, bytes; that of the pieces counts even if they are not requested, for their results."""
        return TEXT_BYTES * len(self.texts) + PIECE_BYTES * self.masked.pieces

    def answer(self, seen: Sequence[GoldScores]) -> list[TextScore]:
        """Returns the score of each text, from the results of all rows. Raises FailedPrecondition if one is not finite."""
        logs = self.masked.logs(seen)
        ends = np.cumsum([0, *self.masked.text_pieces]).tolist()
        sums = self.masked.sums(logs).tolist()
        return [TextScore(total, logs[start:end]) for total, (start, end) in zip(sums, pairwise(ends), strict=True)]

    def scored_pieces(self, text: int) -> Iterator[Piece]:
        """Yields the scored pieces of a text, in order."""
        pieces = self.texts[text].pieces(self.tokenizer)
        return (pieces[place] for word in self.words[text] for place in word.scored)


def _chosen(given: ScoredInput, tokenized: TokenizedText, tokenizer: TextTokenizer) -> list[ScoredWord]:
    """Returns the words of a text to score. Raises InvalidArgument if there are none, or a part has none."""
    words = scorable_words(tokenized, tokenizer)
    if not words:
        message = f"{given.field} holds no token of this model's vocabulary that could be scored; write some text"
        raise InvalidArgument(f"{given.field}.text", message, "EMPTY_TEXT")
    if given.spans:
        words = _in_spans(given, tokenized, words)
    stop = None if given.max_words is None else given.skip_words + given.max_words
    return words[given.skip_words : stop]


def _in_spans(given: ScoredInput, tokenized: TokenizedText, words: Sequence[ScoredWord]) -> list[ScoredWord]:
    """Returns the words of which a span holds the first character of a piece, with these pieces alone as scored."""
    numbers = spans_of_pieces(tokenized, given.spans)
    parts = [ScoredWord(word.pieces, tuple(at for at in word.pieces if numbers[at] != NOWHERE)) for word in words]
    refuse_empty(given.field, given.spans, {numbers[at] for part in parts for at in part.scored}, tokenized)
    return [part for part in parts if part.scored]
