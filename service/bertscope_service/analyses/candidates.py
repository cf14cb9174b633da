"""Words that are scored in place of a mask, as a vocabulary writes them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertscope_service.checkpoints.entry_names import entry_names
from bertscope_service.checkpoints.entry_words import Word
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.errors import InvalidArgument


class EntryWords:
    """The vocabulary entries of one answer, as words: one object for each name of each."""

    def __init__(self, tokenizer: TextTokenizer) -> None:
        self._tokenizer = tokenizer
        self._marked: dict[tuple[int, str], Word] = {}

    def of(self, tokens: Sequence[int]) -> list[Word]:
        """Returns the words of a list of entries, told apart if they are written alike."""
        kept = self._tokenizer.words
        words = list(map(kept.__getitem__, tokens))
        if kept.alike.isdisjoint(tokens) or len({word.text for word in words}) == len(words):
            return words
        named = zip(tokens, entry_names(self._tokenizer, tokens), strict=True)
        return [self._marked.setdefault((token, name), Word(name, (token,))) for token, name in named]


@dataclass(frozen=True, slots=True)
class Spelling:
    """The candidates as they are written after a given character.

    members: for each number of pieces, the candidates with that many [C]. asked: the ids to score for them [number of pieces,
    C].
    """

    words: list[Word]
    members: dict[int, NDArray[np.int64]]
    asked: dict[int, NDArray[np.int64]]

    @classmethod
    def of(cls, words: list[Word]) -> Spelling:
        members: dict[int, list[int]] = defaultdict(list)
        for candidate, word in enumerate(words):
            members[len(word.pieces)].append(candidate)
        asked = {
            length: np.array([words[c].pieces for c in chosen], dtype=np.int64).T.copy() for length, chosen in members.items()
        }
        return cls(words, {length: np.array(chosen) for length, chosen in members.items()}, asked)


def spell(word: str, tokenizer: TextTokenizer, before: str, field: str) -> tuple[int, ...]:
    """Returns the ids of a word's pieces after a character. Raises InvalidArgument for one that the vocabulary can't write."""
    pieces = tokenizer.pieces_in_context(word, before)
    if not pieces or tokenizer.unknown_id in pieces:
        message = f"{field} can't be written with this model's vocabulary; leave it out or write it differently"
        raise InvalidArgument(field, message, "CANDIDATE_UNTOKENIZABLE")
    return pieces


class Candidates:
    """A list of words. Their pieces depend on the character before a mask, and on nothing else."""

    def __init__(self, words: Sequence[str], tokenizer: TextTokenizer, field: str) -> None:
        """`field` is the list in the request."""
        self._words, self._tokenizer, self._field = words, tokenizer, field
        self._spellings: dict[str, Spelling] = {}

    def __len__(self) -> int:
        return len(self._words)

    def after(self, before: str) -> Spelling:
        """Returns the candidates' pieces after a character; see texts.character_before.

        Raises InvalidArgument for a word that the vocabulary can't write.
        """
        found = self._spellings.get(before)
        if found is None:
            named = ((word, f"{self._field}[{index}]") for index, word in enumerate(self._words))
            words = [Word(word, spell(word, self._tokenizer, before, field)) for word, field in named]
            found = self._spellings[before] = Spelling.of(words)
        return found


class EntryCandidates(Candidates):
    """Entries of the vocabulary by their ids: each is one piece, whatever is before it."""

    def __init__(self, ids: Sequence[int], tokenizer: TextTokenizer) -> None:
        super().__init__(entry_names(tokenizer, ids), tokenizer, "piece_ids")
        self._spelling = Spelling.of([Word(word, (token,)) for word, token in zip(self._words, ids, strict=True)])

    def after(self, before: str) -> Spelling:
        """See Candidates."""
        return self._spelling
