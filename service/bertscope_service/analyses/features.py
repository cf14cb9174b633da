"""Attention to tokens with a feature: to nouns, negations, special tokens (Kovaleva et al. 2019, sections 4.4 and 4.5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.head_sums import SumsByKind
from bertscope_service.analyses.observers.columns import ColumnObserver, ColumnScores
from bertscope_service.analyses.texts import check_finite, read_inputs
from bertscope_service.analyses.words import Span
from bertscope_service.checkpoints.tokenized_text import Piece
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.base import Shape
from bertscope_service.encoders.observer import Observer
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import InvalidArgument

MAX_BYTES = 256 * 1024 * 1024
"""Maximum of `FeaturePlan.reply_bytes`."""

TOKEN_BYTES, FEATURE_BYTES = 8, 64
"""Memory for each head: of a token with a feature, and of a feature's sums, here and in the reply."""


@dataclass(frozen=True, slots=True)
class MarkedText:
    """A text or pair with its marked parts, each with its feature."""

    input: tuple[str, str | None]
    spans: tuple[tuple[int, Span], ...]


@dataclass(frozen=True, slots=True)
class FeatureQuery:
    """A ScoreFeatures request. Spans are checked; some text has one, or special tokens are features."""

    texts: tuple[MarkedText, ...]
    features: tuple[str, ...]
    special_tokens: bool


class TextFeatures:
    """The tokens with a feature of a text.

    features: those with a token, ascending. tokens: for each of them its tokens, as indexes in `places`. places: all tokens
    with a feature, ascending, int64 [n]. special: True if the text has special tokens; `source` is the first of them.
    """

    def __init__(self, marks: dict[int, NDArray[np.bool_]], source: int | None) -> None:
        marked = {feature: mask for feature, mask in sorted(marks.items()) if mask.any()}
        self.features = np.array(list(marked), dtype=np.int64)
        self.places = np.flatnonzero(np.logical_or.reduce(list(marked.values()))) if marked else np.zeros(0, dtype=np.int64)
        self.tokens = [np.flatnonzero(mask[self.places]) for mask in marked.values()]
        self.special = source is not None
        self.observer = ColumnObserver(self.places, source or 0)

    def largest(self, values: NDArray[np.float32]) -> NDArray[np.float64]:
        """Returns the largest of the tokens of each feature, [features, layers, heads], from values [layers, n, heads]."""
        return np.stack([values[:, tokens].max(axis=1) for tokens in self.tokens]).astype(np.float64)


class FeaturePlan:
    """The plan to score features: the marked tokens of each text that has some, and a row for each.

    names: of all features, those of special tokens last. Raises InvalidArgument for a text that is too long or holds no token,
    for a feature that is named like a special token, and for a reply that is too large.
    """

    def __init__(self, query: FeatureQuery, tokenizer: TextTokenizer, shape: Shape) -> None:
        self.shape = shape
        self.names = list(query.features)
        self.texts: list[TextFeatures] = []
        self.rows: list[tuple[TokenSequence, Observer]] = []
        inputs = [text.input for text in query.texts]
        marked = [[span for _, span in text.spans] for text in query.texts]
        for index, tokenized in enumerate(read_inputs(tokenizer, inputs, "texts", ".input", truncate=None, words=marked)):
            pieces = tokenized.pieces(tokenizer)
            marks = _marks(query.texts[index], pieces)
            special = [place for place, piece in enumerate(pieces) if piece.special]
            if query.special_tokens and special:
                self._name([pieces[place].text for place in special], query.features)
                for feature, places in enumerate((special[:1], special[1:]), start=len(query.features)):
                    marks[feature] = np.isin(np.arange(len(pieces)), places)
            text = TextFeatures(marks, special[0] if special else None)
            if len(text.features):
                self.texts.append(text)
                self.rows.append((tokenized.sequence, text.observer))
        self._check_size()

    def _name(self, entries: Sequence[str], given: Sequence[str]) -> None:
        """Names the features of special tokens after their vocabulary entries: the first one, and the first of the others."""
        for entry in entries[len(self.names) - len(given) : 2]:
            if entry in given:
                field = f"features[{given.index(entry)}]"
                message = f"{field} is a special token, which special_tokens adds; leave it out, or name it otherwise"
                raise InvalidArgument(field, message, "DUPLICATE")
            self.names.append(entry)

    @property
    def reply_bytes(self) -> int:
        """Size of the reply, and of what the device sends for it."""
        tokens = sum(len(text.places) for text in self.texts)
        return (TOKEN_BYTES * tokens + FEATURE_BYTES * len(self.names)) * self.shape.layers * self.shape.heads

    def _check_size(self) -> None:
        if self.reply_bytes > MAX_BYTES:
            message = (
                f"texts have so many tokens with features that their scores take {self.reply_bytes} bytes, and this server "
                f"takes {MAX_BYTES}; send them in parts"
            )
            raise InvalidArgument("texts", message, "REPLY_TOO_LARGE", limit=MAX_BYTES)

    def answer(self, results: Sequence[ColumnScores]) -> tuple[SumsByKind, SumsByKind]:
        """Sums up, by feature, the largest column mean, and the largest weight from the first special token.

        Raises FailedPrecondition if a weight is not finite.
        """
        size = (len(self.names), self.shape.layers, self.shape.heads)
        attention, from_first = SumsByKind.zeros(size), SumsByKind.zeros(size)
        for text, scores in zip(self.texts, results, strict=True):
            check_finite([scores.means, scores.from_source])
            attention.add(text.features, text.largest(scores.means))
            if text.special:
                from_first.add(text.features, text.largest(scores.from_source))
        return attention, from_first


def _marks(text: MarkedText, pieces: Sequence[Piece]) -> dict[int, NDArray[np.bool_]]:
    """Returns the pieces that begin in a part with each feature; special tokens begin in none."""
    marks: dict[int, NDArray[np.bool_]] = {}
    by_segment = []
    for segment in range(len(text.input)):
        found = [(piece.start, place) for place, piece in enumerate(pieces) if not piece.special and piece.segment == segment]
        by_segment.append(np.array(sorted(found), dtype=np.int64).reshape(-1, 2).T)
    for feature, span in text.spans:
        starts, places = by_segment[span.segment]
        begin, end = np.searchsorted(starts, (span.start, span.end))
        marks.setdefault(feature, np.zeros(len(pieces), dtype=np.bool_))[places[begin:end]] = True
    return marks
