"""Units of hidden states: the pieces, words and marked parts of a text, or the text as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from bertscope_service.analyses.words import Span, Word, positions_of, refuse_empty, spans_of_pieces, words_of
from bertscope_service.checkpoints.tokenized_text import Piece, TokenizedText
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.errors import InvalidArgument


class Unit(Enum):
    """The unit that a row of states is of; see bertscope.v1.StateUnit."""

    PIECE = "piece"
    WORD = "word"
    SPAN = "span"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class StatesInput:
    """A text or pair, and its marked parts; see bertscope.v1.StatesInput."""

    text: str
    pair: str | None = None
    spans: tuple[Span, ...] = ()


def rows_of(
    unit: Unit, given: StatesInput, tokenized: TokenizedText, tokenizer: TextTokenizer, field: str
) -> tuple[Sequence[Piece | Word], list[list[int]] | None]:
    """Returns what each row is of, and the positions of its pieces; None for positions if each piece is a row. A text as a
    whole has one row, of nothing smaller.

    Raises InvalidArgument for a span of `field` that holds no piece, or that is cut.
    """
    if unit is Unit.TEXT:
        return [], [list(range(len(tokenized)))]
    pieces = tokenized.pieces(tokenizer)
    if unit is Unit.PIECE:
        return pieces, None
    if unit is Unit.WORD:
        membership, words = words_of(pieces, tokenized)
        return words, positions_of(membership.tolist(), len(words))
    numbers = spans_of_pieces(tokenized, given.spans)
    refuse_empty(field, given.spans, set(numbers), tokenized)
    _refuse_cut(field, given.spans, pieces, tokenized)
    groups = positions_of(numbers, len(given.spans))
    rows = [
        Word(tokenized.texts[span.segment][span.start : span.end], span.start, span.end, [pieces[place] for place in group])
        for span, group in zip(given.spans, groups, strict=True)
    ]
    return rows, groups


def _refuse_cut(field: str, spans: Sequence[Span], pieces: Sequence[Piece], tokenized: TokenizedText) -> None:
    """Raises InvalidArgument for a span of which a part was cut away."""
    if not tokenized.truncated:
        return
    ends = [max((piece.end for piece in pieces if piece.segment == text), default=0) for text in range(len(tokenized.texts))]
    for index, span in enumerate(spans):
        if tokenized.texts[span.segment][max(span.start, ends[span.segment]) : span.end].strip():
            message = (
                f"{field}.spans[{index}] is cut, as {tokenized.truncated} tokens of the text were cut away; shorten the text"
            )
            raise InvalidArgument(f"{field}.spans[{index}]", message, "SPAN_TRUNCATED")
