"""Finds the words of a text, and the pieces of words that the caller names."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.observers.word_maps import NOWHERE
from bertscope_service.checkpoints.tokenized_text import Piece, TokenizedText
from bertscope_service.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Word:
    """A row and column of a map by words: the word's text, its span, and its pieces."""

    text: str
    start: int
    end: int
    pieces: list[Piece]


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a text, in code points; `segment` is 0, or 1 for the second text of a pair."""

    start: int
    end: int
    segment: int


def words_of(pieces: Sequence[Piece], tokenized: TokenizedText) -> tuple[NDArray[np.int64], list[Word]]:
    """Groups tokens into words. Returns the number of each token's word [tokens], and the words in order.

    Each special token is a word by itself.
    """
    membership, words = np.zeros(len(pieces), dtype=np.int64), list[Word]()
    for index, piece in enumerate(pieces):
        last = words[-1].pieces[-1] if words else None
        if last is not None and piece.word is not None and (last.word, last.segment) == (piece.word, piece.segment):
            word = words[-1]
            text = tokenized.texts[piece.segment][word.start : piece.end]
            words[-1] = Word(text, word.start, piece.end, [*word.pieces, piece])
        else:
            text = piece.text if piece.special else tokenized.texts[piece.segment][piece.start : piece.end]
            words.append(Word(text or piece.text, piece.start, piece.end, [piece]))
        membership[index] = len(words) - 1
    return membership, words


def positions_of(numbers: Sequence[int], count: int) -> list[list[int]]:
    """Returns the positions of each unit, by the number of each position's unit; NOWHERE for none."""
    groups: list[list[int]] = [[] for _ in range(count)]
    for place, number in enumerate(numbers):
        if number != NOWHERE:
            groups[number].append(place)
    return groups


def spans_of_pieces(tokenized: TokenizedText, spans: Sequence[Span]) -> list[int]:
    """Returns, for each token, the number of the span that holds its first character; NOWHERE for special tokens and those that
    none holds. Spans don't overlap, and come in any order."""
    order = sorted(range(len(spans)), key=lambda index: (spans[index].segment, spans[index].start))
    starts = [(spans[index].segment, spans[index].start) for index in order]

    def find(place: int) -> int:
        segment = tokenized.encoding.token_to_sequence(place)
        if segment is None:
            return NOWHERE
        start, _ = tokenized.span(place)
        found = bisect_right(starts, (segment, start)) - 1
        if found < 0 or starts[found][0] != segment or start >= spans[order[found]].end:
            return NOWHERE
        return order[found]

    return list(map(find, range(len(tokenized))))


def refuse_empty(field: str, spans: Sequence[Span], held: Container[int], tokenized: TokenizedText) -> None:
    """Raises InvalidArgument if no piece is in one of `field`.spans; `held` are the numbers of those that have one."""
    for index in range(len(spans)):
        if index in held:
            continue
        if tokenized.truncated:
            message = (
                f"{field}.spans[{index}] has no piece left, as {tokenized.truncated} tokens of the text were cut away; "
                "shorten the text"
            )
            raise InvalidArgument(f"{field}.spans[{index}]", message, "SPAN_TRUNCATED")
        message = f"{field}.spans[{index}] holds the first character of no piece that could be read; name whole words"
        raise InvalidArgument(f"{field}.spans[{index}]", message, "NO_PIECE")
