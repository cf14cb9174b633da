"""A text as a tokenizer reads it: spans, words and segments of its tokens.

Positions are Unicode code points of the caller's text, also if "[MASK]" became the model's own mask token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bertscope_service.checkpoints.marked_words import AnyEncoding
from bertscope_service.checkpoints.mask_names import Moves, move
from bertscope_service.checkpoints.word_bounds import BLANK_PIECES, is_mark, join_parts, part_words_at
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import InvalidArgument

if TYPE_CHECKING:
    from bertscope_service.checkpoints.tokenizer import TextTokenizer


@dataclass(frozen=True, slots=True)
class Piece:
    """One token of a text; see bertscope.v1.Token. `word` is None for special tokens."""

    text: str
    id: int
    start: int
    end: int
    special: bool
    word: int | None
    segment: int


Place: TypeAlias = tuple[int, int, int]
"""The text of a pair that a token is in, and the code points that it covers there, first and one past the last."""


@dataclass(eq=False)
class TokenizedText:
    """A text, or a pair, as the model reads it. `truncated` counts the tokens that were cut away.

    places: those of the masks, by their positions, if nothing but these was kept of the encoding, which `again` reads again.
    """

    sequence: TokenSequence
    texts: tuple[str, ...]
    moves: Sequence[Moves]
    truncated: int
    again: Callable[[], AnyEncoding] | None = None
    places: Mapping[int, Place] | None = None

    @classmethod
    def of(
        cls, encoding: AnyEncoding, segments: Sequence[int], texts: tuple[str, ...], moves: Sequence[Moves], truncated: int
    ) -> TokenizedText:
        """Keeps an encoding."""
        sequence = TokenSequence(encoding.ids, segments, partial(starts, encoding, texts, moves))
        made = cls(sequence, texts, moves, truncated)
        made.encoding = encoding
        return made

    def __len__(self) -> int:
        return len(self.sequence)

    @cached_property
    def encoding(self) -> AnyEncoding:
        """All that the tokenizer says of each token."""
        if self.again is None:
            raise ValueError("the text was made without its encoding")
        return self.again()

    def span(self, index: int) -> tuple[int, int]:
        """Returns the code points that token `index` covers in its text, first and one past the last, without surrounding
        blanks."""
        if self.places is not None and (known := self.places.get(index)) is not None:
            return known[1:]
        return span(self.encoding, self.texts, self.moves, index)

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """The code points of each token; see `span`."""
        return spans(self.encoding, self.texts, self.moves)

    def segment(self, index: int) -> int:
        """Returns which text of a pair token `index` is in, 0 or 1; 0 for a special token."""
        if self.places is not None and (known := self.places.get(index)) is not None:
            return known[0]
        return self.encoding.token_to_sequence(index) or 0

    def place(self, index: int) -> Place:
        """Returns both."""
        return self.segment(index), *self.span(index)

    @cached_property
    def words(self) -> list[int | None]:
        """The number of each token's word in its text, from 0; None for special tokens.

        The tokenizer splits a text at blanks or more finely. BERT's splits off punctuation and ideographs; sentence pieces
        don't, so where a piece ends beside one, a word ends as well. A word holds more than one part only where byte-level ones
        split off marks and joiners: the accents of an NFD text, the vowel signs of Hindi.
        """
        found, number = list[int | None](), -1
        tokens = self.encoding.tokens  # each time a new list of all
        ascii_alone = [text.isascii() for text in self.texts]
        text_before = part_before = None
        for index, (part, which) in enumerate(zip(self.encoding.word_ids, self.encoding.sequence_ids, strict=True)):
            if which is None or part is None:
                found.append(None)
                continue
            if which != text_before:
                number = 0
            elif part != part_before:
                number += ascii_alone[which] or self._ends_word(index, which, part_of=None)
            else:
                number += self._ends_word(index, which, part_of=tokens[index - 1])
            text_before, part_before = which, part
            found.append(number)
        return found

    def _ends_word(self, index: int, which: int, *, part_of: str | None) -> bool:
        """Returns whether a word ends between a token and the one before it. part_of: that one's entry, None if the tokenizer
        parts them."""
        if part_of in BLANK_PIECES:
            return False
        text, place, end = self.texts[which], self.spans[index][0], self.spans[index - 1][1]
        inside = 0 < place < len(text)
        if part_of is None and not (inside and end == place and join_parts(text[place - 1], text[place])):
            return True
        return inside and end <= place and part_words_at(text, place)

    def pieces(self, tokenizer: TextTokenizer) -> list[Piece]:
        """Returns all tokens, in order."""
        found, segment = [], 0
        columns = zip(self.encoding.ids, self.words, self.encoding.sequence_ids, self.spans, strict=True)
        for token, word, which, (start, end) in columns:
            # A special token belongs to the text it closes; the first one opens the first text.
            segment = segment if which is None else which
            found.append(Piece(tokenizer.piece(token), token, start, end, which is None, word, segment))
        return found


def check_length(tokenized: TokenizedText, field: str, max_tokens: int, *, cuttable: bool = True) -> None:
    """Raises InvalidArgument if a text is longer than the model reads. `cuttable`: `truncate` would have cut it."""
    if len(tokenized) > max_tokens:
        remedy = "shorten it, or set truncate" if cuttable else "shorten it"
        message = f"{field} has {len(tokenized)} tokens and the model reads {max_tokens}; {remedy}"
        raise InvalidArgument(field, message, "TEXT_TOO_LONG", tokens=len(tokenized), max_tokens=max_tokens)


def span(encoding: AnyEncoding, texts: tuple[str, ...], moves: Sequence[Moves], index: int) -> tuple[int, int]:
    """Returns the code points that a token covers; see TokenizedText.span."""
    which = encoding.token_to_sequence(index)
    characters = encoding.token_to_chars(index)
    if which is None or characters is None:
        return 0, 0
    start, end = characters
    if moves[which]:
        start, end = move(start, moves[which]), move(end, moves[which])
    text = texts[which]
    covered = text[start:end]
    start += len(covered) - len(covered.lstrip())
    end = start + len(covered.strip())
    if start < end < len(text) and is_mark(text[end]):
        # An accent or a vowel sign that was stripped belongs to its letter; one that was kept, to its own piece.
        limit = _next_start(encoding, moves[which], index, which)
        while end < (len(text) if limit is None else limit) and is_mark(text[end]):
            end += 1
    return start, end


def spans(encoding: AnyEncoding, texts: tuple[str, ...], moves: Sequence[Moves]) -> list[tuple[int, int]]:
    """Returns the code points of each token; most texts show at a glance that these are the tokenizer's own."""
    offsets = encoding.offsets
    own = [(texts[which or 0], start, end) for which, (start, end) in zip(encoding.sequence_ids, offsets, strict=True)]
    covered = [text[start:end] for text, start, end in own]
    marked = not all(map(str.isascii, texts)) and any(is_mark(text[end : end + 1]) for text, _, end in own)
    if marked or any(moves) or list(map(str.strip, covered)) != covered:
        return [span(encoding, texts, moves, index) for index in range(len(offsets))]
    return offsets


def place(encoding: AnyEncoding, texts: tuple[str, ...], moves: Sequence[Moves], index: int) -> Place:
    """Returns the place of a token; see TokenizedText."""
    return encoding.token_to_sequence(index) or 0, *span(encoding, texts, moves, index)


def _next_start(encoding: AnyEncoding, moves: Moves, index: int, which: int) -> int | None:
    """Returns where the token behind one begins, None if it is not in the same text."""
    if index + 1 == len(encoding) or encoding.token_to_sequence(index + 1) != which:
        return None
    characters = encoding.token_to_chars(index + 1)
    return None if characters is None else move(characters[0], moves)


def starts(encoding: AnyEncoding, texts: tuple[str, ...], moves: Sequence[Moves]) -> NDArray[np.int64]:
    """Returns where each token begins; see TokenSequence.starts."""
    columns = zip(encoding.sequence_ids, spans(encoding, texts, moves), strict=True)
    found = [(-1, -1) if which is None else (which, start) for which, (start, _) in columns]
    return np.array(found, dtype=np.int64).reshape(-1, 2)
