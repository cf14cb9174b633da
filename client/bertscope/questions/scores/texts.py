"""Scores of texts, of their words and their pieces, and their tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from bertscope.values import validation
from bertscope.values.choices import Scoring
from bertscope.values.display import data_frame, record
from bertscope.values.lazy import made
from bertscope.values.results import Provenance, Results
from bertscope.values.validation import TextOrPair

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ScoredPiece", "ScoredText", "ScoredTexts", "ScoredWord"]

LN2 = math.log(2)
Level = Literal["text", "word", "piece"]
"""The rows of a table of scores."""


@record
class ScoredPiece:
    """The score of one piece of the vocabulary."""

    text: str
    """Vocabulary entry, as the tokenizer writes it."""
    id: int
    """Vocabulary index."""
    start: int
    """First code point in its text."""
    end: int
    """One past the last."""
    segment: int
    """0 for the text, 1 for the second text of a pair."""
    word: int
    """Number of its word in its text, from 0."""
    log_probability: float
    """Natural logarithm of its probability, given the rest; at most 0."""

    @property
    def surprisal(self) -> float:
        """The surprisal, nats."""
        return -self.log_probability


@record
class ScoredWord:
    """The score of one word: the sum over its pieces."""

    text: str
    """The word, as the text has it."""
    start: int
    """First code point in its text."""
    end: int
    """One past the last."""
    segment: int
    """0 for the text, 1 for the second text of a pair."""
    pieces: tuple[ScoredPiece, ...]
    """Its scored pieces."""

    @property
    def log_probability(self) -> float:
        """Sum of the natural logarithms of its pieces' probabilities."""
        return math.fsum(piece.log_probability for piece in self.pieces)

    @property
    def surprisal(self) -> float:
        """The surprisal, nats."""
        return -self.log_probability

    @property
    def surprisal_bits(self) -> float:
        """The surprisal, bits."""
        return self.surprisal / LN2


@record
class ScoredText:
    """The pseudo-log-likelihood of one text, or of the parts of it that are scored."""

    text: TextOrPair
    """The text or pair, as given."""
    log_likelihood: float
    """Sum over the scored pieces of ln P(piece | the rest), at most 0."""
    scored_pieces: int
    """The scored pieces; special tokens and the text's own masks are never scored."""
    scored_words: int
    """The words that they belong to."""
    pieces: tuple[ScoredPiece, ...] = field(repr=False)
    """The scored pieces in order; empty unless requested."""
    tokens: int
    """Number of tokens that the model read, special tokens included."""
    truncated_tokens: int
    """Number of tokens of the text that were cut away."""
    scoring: Scoring
    """The pieces that were masked beside each scored one."""
    provenance: Provenance
    """Provenance of the score."""

    @property
    def pseudo_perplexity(self) -> float:
        """exp(-log_likelihood / scored_pieces), at least 1."""
        return math.exp(-self.log_likelihood / self.scored_pieces)

    @cached_property
    def words(self) -> tuple[ScoredWord, ...]:
        """The scored words in order; empty unless pieces were requested. Words are the tokenizer's own: byte-level
        and WordPiece tokenizers split punctuation off, sentence-piece ones split at blanks alone."""
        groups: dict[tuple[int, int], list[ScoredPiece]] = {}
        for piece in self.pieces:
            groups.setdefault((piece.segment, piece.word), []).append(piece)
        return tuple(self._word(pieces) for pieces in groups.values())

    def _word(self, pieces: Sequence[ScoredPiece]) -> ScoredWord:
        first, end = pieces[0], pieces[-1].end
        text = self.text if isinstance(self.text, str) else self.text[first.segment]
        return made(
            ScoredWord,
            text=text[first.start : end],
            start=first.start,
            end=end,
            segment=first.segment,
            pieces=tuple(pieces),
        )

    def to_row(self) -> dict[str, Any]:
        """Returns the columns of `write_items`; words and their surprisals, in nats, if pieces were requested."""
        return {
            "log_likelihood": self.log_likelihood,
            "pseudo_perplexity": self.pseudo_perplexity if self.scored_pieces else None,
            "scored_pieces": self.scored_pieces,
            "scored_words": self.scored_words,
            "tokens": self.tokens,
            "truncated_tokens": self.truncated_tokens,
            "words": [word.text for word in self.words] or None,
            "surprisals": [word.surprisal for word in self.words] or None,
        }

    def to_pandas(self, level: Level = "word") -> pd.DataFrame:
        """Returns a row for each word, piece, or the text; columns as `ScoredTexts.to_pandas`."""
        return data_frame(score_columns([self], level))


class ScoredTexts(Results[ScoredText]):
    """The scores of the texts of one `score_texts` call, in order."""

    __slots__ = ()

    @property
    def log_likelihood(self) -> float:
        """The sum over all texts."""
        return math.fsum(text.log_likelihood for text in self)

    @property
    def scored_pieces(self) -> int:
        """The scored pieces of all texts."""
        return sum(text.scored_pieces for text in self)

    @property
    def pseudo_perplexity(self) -> float:
        """The pseudo-perplexity of the corpus: exp(-log_likelihood / scored_pieces) over all texts together (Salazar et al.
        2020); NaN without a text."""
        pieces = self.scored_pieces
        return math.exp(-self.log_likelihood / pieces) if pieces else math.nan

    def to_pandas(self, level: Level = "text") -> pd.DataFrame:
        """Returns a row for each text: text, text_pair, log_likelihood, pseudo_perplexity, scored_pieces, scored_words, tokens,
        truncated_tokens; or, with the level "word" or "piece", a row for each of these: index (of the text), segment, word,
        start, end, log_probability, surprisal, surprisal_bits, and pieces or id. Needs the extra "pandas"."""
        return data_frame(score_columns(self, level))


def score_columns(texts: Iterable[ScoredText], level: Level) -> dict[str, list[Any]]:
    """Returns the columns of `ScoredTexts.to_pandas`; needs no pandas."""
    names, rows = _ROWS[validation.choice("level", level, {name: name for name in _ROWS})]
    found = [row for index, text in enumerate(texts) for row in rows(index, text)]
    return {name: [row[place] for row in found] for place, name in enumerate(names)}


def _text_rows(_: int, scored: ScoredText) -> Iterable[tuple[Any, ...]]:
    text, pair = (scored.text, None) if isinstance(scored.text, str) else scored.text
    counts = scored.scored_pieces, scored.scored_words, scored.tokens, scored.truncated_tokens
    yield text, pair, scored.log_likelihood, scored.pseudo_perplexity, *counts


def _word_rows(index: int, scored: ScoredText) -> Iterable[tuple[Any, ...]]:
    for word in scored.words:
        surprisals = word.log_probability, word.surprisal, word.surprisal_bits
        yield index, word.segment, word.text, word.start, word.end, *surprisals, len(word.pieces)


def _piece_rows(index: int, scored: ScoredText) -> Iterable[tuple[Any, ...]]:
    for piece in scored.pieces:
        surprisals = piece.log_probability, piece.surprisal, piece.surprisal / LN2
        yield index, piece.segment, piece.text, piece.start, piece.end, *surprisals, piece.id, piece.word


_PLACE, _SURPRISALS = ("start", "end"), ("log_probability", "surprisal", "surprisal_bits")
_COUNTS = ("scored_pieces", "scored_words", "tokens", "truncated_tokens")
_ROWS: dict[str, tuple[tuple[str, ...], Any]] = {
    "text": (("text", "text_pair", "log_likelihood", "pseudo_perplexity", *_COUNTS), _text_rows),
    "word": (("index", "segment", "word", *_PLACE, *_SURPRISALS, "pieces"), _word_rows),
    "piece": (("index", "segment", "piece", *_PLACE, *_SURPRISALS, "id", "word"), _piece_rows),
}
