"""Parts pieces where the caller's words meet, so that each word has a piece of its own.

A piece may hold the end of one word and the next one: "),", or 首都 of which a treebank makes two words. Corpora tag such words
apart, and transformers tokenizes them apart (`is_split_into_words`). Here the text stays as it is written: the word behind the
place gets no blank that the text does not have.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from tokenizers import Encoding, Tokenizer

from bertscope_service.checkpoints.mask_names import Moves, unmove
from bertscope_service.checkpoints.word_bounds import part_words_at

Mark: TypeAlias = tuple[int, int, int]
"""A marked word: the number of its text, its first code point, and one past its last."""


@dataclass(frozen=True, slots=True)
class PartedEncoding:
    """The tokens of a text that was tokenized in parts; its members are those of `tokenizers.Encoding`."""

    ids: list[int]
    type_ids: list[int]
    tokens: list[str]
    sequence_ids: list[int | None]
    word_ids: list[int | None]
    offsets: list[tuple[int, int]]

    @classmethod
    def of(cls, encoding: Encoding) -> PartedEncoding:
        """Copies an encoding, whose members are made anew each time that they are read."""
        return cls(encoding.ids, encoding.type_ids, encoding.tokens, encoding.sequence_ids, encoding.word_ids, encoding.offsets)

    def __len__(self) -> int:
        return len(self.ids)

    def token_to_sequence(self, index: int) -> int | None:
        return self.sequence_ids[index]

    def token_to_chars(self, index: int) -> tuple[int, int] | None:
        return None if self.sequence_ids[index] is None else self.offsets[index]

    def cut(self, room: int, *, start: bool) -> PartedEncoding:
        """Returns the encoding without so many tokens that `room` remain, the longer text first, at their `start` or end."""
        texts = [[place for place, which in enumerate(self.sequence_ids) if which == text] for text in (0, 1)]
        excess = max(0, len(self) - room)
        # One token at a time leaves the longer text: what it has more goes first, and then both lose in turn.
        difference = min(excess, abs(len(texts[0]) - len(texts[1])))
        lost = [(excess - difference + 1) // 2, (excess - difference) // 2]
        lost[len(texts[1]) > len(texts[0])] += difference
        gone = {
            place
            for places, count in zip(texts, lost, strict=True)
            for place in (places[:count] if start else places[len(places) - count :])
        }
        kept = [place for place in range(len(self)) if place not in gone]
        return PartedEncoding(
            [self.ids[place] for place in kept],
            [self.type_ids[place] for place in kept],
            [self.tokens[place] for place in kept],
            [self.sequence_ids[place] for place in kept],
            [self.word_ids[place] for place in kept],
            [self.offsets[place] for place in kept],
        )


AnyEncoding: TypeAlias = Encoding | PartedEncoding


def places_to_part(
    spans: Sequence[tuple[int, int]], segments: Sequence[int | None], texts: Sequence[str], marks: Sequence[Mark]
) -> dict[int, list[int]]:
    """Returns for each text the code points at which pieces are to be parted, if a marked word has no piece; ascending.

    spans, segments: those of the tokens. A mark that begins or ends inside a word, where no other one does, parts nothing: it
    is a mistake.
    """
    of_text: list[set[tuple[int, int]]] = [set() for _ in texts]
    for which, start, end in marks:
        of_text[which].add((start, end))
    texts_words = list(map(_TextWords, texts, of_text))
    of_texts = [[span for span, which in zip(spans, segments, strict=True) if which == number] for number in range(len(texts))]
    if not any(words.lacks_piece(own) for words, own in zip(texts_words, of_texts, strict=True)):
        return {}
    found = {number: words.crossed(own) for number, (words, own) in enumerate(zip(texts_words, of_texts, strict=True))}
    return {number: places for number, places in found.items() if places}


class _TextWords:
    """The marked words of one text."""

    def __init__(self, text: str, marks: Collection[tuple[int, int]]) -> None:
        self._text, self._marks = text, marks
        self._uses = Counter(place for mark in marks for place in mark)
        self._ends = sorted(place for place in self._uses if self._ends_word(place))

    def _ends_word(self, place: int) -> bool:
        """Returns whether a word ends at a place: at a blank or punctuation, or where two marked ones meet."""
        if not 0 < place < len(self._text) or self._uses[place] > 1:
            return True
        return self._text[place - 1].isspace() or self._text[place].isspace() or part_words_at(self._text, place)

    def lacks_piece(self, spans: Sequence[tuple[int, int]]) -> bool:
        """Returns whether no token begins in one of the words. spans: those of the tokens, ascending."""
        starts, whole = [start for start, _ in spans], set(self._ends)
        return any(
            start in whole and end in whole and bisect_left(starts, start) == bisect_left(starts, end)
            for start, end in self._marks
        )

    def crossed(self, spans: Sequence[tuple[int, int]]) -> list[int]:
        """Returns the ends of words inside tokens, ascending."""
        found = set[int]()
        for start, end in spans:
            found.update(self._ends[bisect_right(self._ends, start) : bisect_left(self._ends, end)])
        return sorted(found)


def part_encoding(
    whole: Encoding,
    written: Sequence[str],
    moves: Sequence[Moves],
    places: Mapping[int, Sequence[int]],
    first: Tokenizer,
    following: Tokenizer,
) -> PartedEncoding:
    """Returns the encoding of texts that are parted at some code points of the caller's.

    whole: that of the unparted texts, special tokens included. written: the texts with the model's own mask. first, following:
    the tokenizers of a text's first part, and of parts behind which no blank is added.
    """
    found, source = PartedEncoding([], [], [], [], [], []), PartedEncoding.of(whole)
    for index, (text, type_id) in enumerate(zip(source.sequence_ids, source.type_ids, strict=True)):
        if text is None or text not in places:
            _add(found, source, index, text, type_id, source.word_ids[index], 0)
        elif index == 0 or source.sequence_ids[index - 1] != text:
            cuts = [0, *(unmove(place, moves[text]) for place in places[text]), len(written[text])]
            words = 0
            for start, part in _parts(written[text], cuts, first, following):
                for place, word in enumerate(part.word_ids):
                    _add(found, part, place, text, type_id, words + (word or 0), start)
                words += 1 + max((word or 0 for word in part.word_ids), default=0)
    return found


def _parts(text: str, cuts: Sequence[int], first: Tokenizer, following: Tokenizer) -> Iterator[tuple[int, PartedEncoding]]:
    for number, (start, end) in enumerate(pairwise(cuts)):
        yield start, PartedEncoding.of((following if number else first).encode(text[start:end], add_special_tokens=False))


def _add(
    found: PartedEncoding, source: PartedEncoding, index: int, text: int | None, type_id: int, word: int | None, shift: int
) -> None:
    start, end = source.offsets[index]
    found.ids.append(source.ids[index])
    found.type_ids.append(type_id)
    found.tokens.append(source.tokens[index])
    found.sequence_ids.append(text)
    found.word_ids.append(word)
    found.offsets.append((start + shift, end + shift))
