"""Classification of words by a fine-tuned model: the labels of each word's first piece, and the mentions that they make.

Devlin et al. 2019, section 5.3: the first piece of a word is what a token classification head is trained on. Of the tokenizer's
own words it is the first that holds a character: sentence pieces may write the blank before a word as a piece.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.classification import LABEL_BYTES, log_softmax
from bertscope_service.analyses.label_schemes import Scheme, mentions_of, scheme_of
from bertscope_service.analyses.observers.token_labels import TokenLabelObserver
from bertscope_service.analyses.probes import SpanPlaces
from bertscope_service.analyses.texts import read_named_inputs
from bertscope_service.analyses.words import Span, positions_of, words_of
from bertscope_service.checkpoints.tokenized_text import TokenizedText
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.checkpoints.word_bounds import BLANK_PIECES
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import InvalidArgument

MAX_PREDICTIONS = 500_000
"""Maximum of words times top_k of a call."""
WORD_BYTES = 40


@dataclass(frozen=True, slots=True)
class TaggedInput:
    """A text or pair, its words (none: the tokenizer's own), and the field that errors name."""

    field: str
    input: tuple[str, str | None]
    words: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class ClassifyTokensQuery:
    """A ClassifyTokens request; `top_k` is at least 1."""

    inputs: tuple[TaggedInput, ...]
    top_k: int
    truncate: bool


@dataclass(frozen=True, slots=True, eq=False)
class ReadWords:
    """The words of a text. positions: the place of each one's first piece, None for one without."""

    text: TokenizedText
    words: Sequence[Span]
    positions: Sequence[int | None]

    @property
    def read(self) -> tuple[int, ...]:
        """The places of the words that have one, in order."""
        return tuple(place for place in self.positions if place is not None)


@dataclass(frozen=True, slots=True)
class PlacedMention:
    """Words that are one. probability: the mean over its words of that of the likeliest label."""

    type: str
    span: Span
    probability: float


@dataclass(frozen=True, slots=True, eq=False)
class TaggedWords:
    """The labels of a text's words that were read. ranked: indices of labels, likeliest first, int64 [words, top_k].
    probabilities, logits: those of these labels, likewise."""

    ranked: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    logits: NDArray[np.float64]
    mentions: Sequence[PlacedMention]


class ClassifyTokensPlan:
    """The rows for a ClassifyTokens query, and the conversion of their scores to an answer.

    Raises InvalidArgument for a text that is too long or holds no token, and for a reply that is too large.
    """

    def __init__(self, query: ClassifyTokensQuery, tokenizer: TextTokenizer, labels: Sequence[str]) -> None:
        self.query, self.labels, self.scheme = query, labels, scheme_of(labels)
        inputs, fields = [given.input for given in query.inputs], (given.field for given in query.inputs)
        marked = [given.words for given in query.inputs]
        read = read_named_inputs(tokenizer, inputs, fields, truncate=query.truncate, words=marked)
        self.texts = [find_words(text, given.words, tokenizer) for given, text in zip(query.inputs, read, strict=True)]
        self._words = sum(len(text.words) for text in self.texts)
        if self._words * query.top_k > MAX_PREDICTIONS:
            message = (
                f"the reply would hold {self._words * query.top_k} labels of words, more than {MAX_PREDICTIONS}; send fewer "
                "texts at a time, or lower top_k"
            )
            raise InvalidArgument("inputs", message, "TOO_MANY_PREDICTIONS", limit=MAX_PREDICTIONS)
        self.rows: list[tuple[TokenSequence, TokenLabelObserver]] = [
            (text.text.sequence, TokenLabelObserver(text.read)) for text in self.texts
        ]

    @property
    def reply_bytes(self) -> int:
        """Approximate size of the reply, bytes: the longest names, to be safe."""
        names = max(map(len, self.labels)) + LABEL_BYTES
        return self._words * (self.query.top_k * names + WORD_BYTES)

    def answers(self, scores: Sequence[NDArray[np.float32]]) -> Iterator[TaggedWords]:
        """Yields the labels of each text's words. scores: the logits [words, labels] of each of `rows`. Raises
        FailedPrecondition if they are not finite."""
        for text, logits in zip(self.texts, scores, strict=True):
            logs = log_softmax(logits)
            ranked = np.argsort(-logits, axis=1, kind="stable")[:, : self.query.top_k]
            chosen = np.take_along_axis(np.exp(logs), ranked, axis=1)
            own = np.take_along_axis(logits.astype(np.float64), ranked, axis=1)
            mentions = [] if self.scheme is Scheme.NONE else self._mentions(text, ranked[:, 0], chosen[:, 0])
            yield TaggedWords(ranked, chosen, own, mentions)

    def _mentions(self, text: ReadWords, best: NDArray[np.int64], shares: NDArray[np.float64]) -> list[PlacedMention]:
        """Joins words in the order of the text; a word without a label parts mentions, and so do the texts of a pair."""
        numbers = iter(range(len(best)))
        places = [None if place is None else next(numbers) for place in text.positions]
        order = sorted(range(len(places)), key=lambda index: (text.words[index].segment, text.words[index].start))
        found = []
        for segment, group in groupby(order, key=lambda index: text.words[index].segment):
            words = list(group)
            labels = [None if (place := places[word]) is None else self.labels[best[place]] for word in words]
            for kind, start, stop in mentions_of(labels):
                own = [place for word in words[start:stop] if (place := places[word]) is not None]
                span = Span(text.words[words[start]].start, text.words[words[stop - 1]].end, segment)
                found.append(PlacedMention(kind, span, float(shares[own].mean())))
        return found


def find_words(text: TokenizedText, marked: Sequence[Span], tokenizer: TextTokenizer) -> ReadWords:
    """Finds the first pieces of the marked words of a text, or of the tokenizer's own if none is marked."""
    if not marked:
        return _own_words(text, tokenizer)
    places = SpanPlaces(text, tokenizer)
    found = [places.of(span) for span in marked]
    return ReadWords(text, marked, [place.start if isinstance(place, range) else None for place in found])


def _own_words(text: TokenizedText, tokenizer: TextTokenizer) -> ReadWords:
    membership, words = words_of(text.pieces(tokenizer), text)
    spans, places = list[Span](), list[int | None]()
    for word, own in zip(words, positions_of(membership.tolist(), len(words)), strict=True):
        if not word.pieces[0].special:
            blank = len(own) > 1 and word.pieces[0].text in BLANK_PIECES
            spans.append(Span(word.start, word.end, word.pieces[0].segment))
            places.append(own[1] if blank else own[0])
    return ReadWords(text, spans, places)
