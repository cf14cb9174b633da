"""The objects that facts are ranked among: vocabulary entries at one mask, or phrases at as many masks as they have pieces."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.observers.masks import Entries, MaskObserver, MaskScores
from bertscope_service.analyses.observers.phrases import PhraseObserver
from bertscope_service.analyses.texts import check_finite, with_masks
from bertscope_service.checkpoints.entry_names import entry_names
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.observer import Observer
from bertscope_service.encoders.sequences import TokenSequence


class Skipped(Enum):
    """The reason why a fact was not asked; see bertscope.v1.FactResult.Skipped. In order: a later one says more of its objects'
    failures than an earlier one."""

    NOT_WRITABLE = "not_writable"
    SEVERAL_PIECES = "several_pieces"
    NOT_AMONG_CANDIDATES = "not_among_candidates"
    TOO_LONG = "too_long"


@dataclass(frozen=True, slots=True)
class Standing:
    """The places of some right objects among all choices, and the likeliest choices.

    ranks: of each right object, from 1; None for one that was not found. logs: natural logarithms of their probabilities. top:
    the likeliest choices, with theirs.
    """

    ranks: Sequence[int | None]
    logs: Sequence[float]
    top: Sequence[tuple[str, float]]


class Choices(Protocol):
    """Objects to rank among, as they are written after one character."""

    @property
    def size(self) -> int:
        """The number of choices."""

    @property
    def longest(self) -> int:
        """The most masks that stand for an object."""

    @property
    def scores(self) -> int:
        """The number of scores that a question brings to the host."""

    def find(self, word: str, pieces: tuple[int, ...]) -> int | Skipped:
        """Returns the number of a right object among the choices, or the reason why it is not there."""

    def rows(self, sequence: TokenSequence, position: int, right: Sequence[int]) -> list[tuple[TokenSequence, Observer]]:
        """Returns the rows that rank right objects, by their numbers, at the mask at `position`."""

    def read(self, results: Sequence[Any], right: Sequence[int]) -> Standing:
        """Converts the results of `rows`. Raises FailedPrecondition for scores that are not finite."""


class EntryChoices:
    """Single vocabulary entries: all of them, or those that some words are; an object's number is its id."""

    longest = 1

    def __init__(self, tokenizer: TextTokenizer, entries: int, words: Sequence[str], before: str, top_k: int) -> None:
        """`entries` counts the whole vocabulary, to which no `words` mean."""
        self._tokenizer = tokenizer
        self._among: Entries | None = None
        self._names: Mapping[int, str] | None = None
        self.size = entries
        self.left_out = 0
        if words:
            ids = tokenizer.single_entries.find(words, before)
            kept = np.flatnonzero(ids >= 0)
            distinct, first = np.unique(ids[kept], return_index=True)
            self._among, self.size, self.left_out = Entries(distinct), len(distinct), len(words) - len(kept)
            self._names = {token: words[place] for token, place in zip(distinct.tolist(), kept[first].tolist(), strict=True)}
        self._top_k = min(top_k, self.size)

    @property
    def scores(self) -> int:
        return self._top_k

    def find(self, word: str, pieces: tuple[int, ...]) -> int | Skipped:
        if not pieces or self._tokenizer.unknown_id in pieces:
            return Skipped.NOT_WRITABLE
        if len(pieces) > 1:
            return Skipped.SEVERAL_PIECES
        if self._names is not None and pieces[0] not in self._names:
            return Skipped.NOT_AMONG_CANDIDATES
        return pieces[0]

    def rows(self, sequence: TokenSequence, position: int, right: Sequence[int]) -> list[tuple[TokenSequence, Observer]]:
        asked = np.array([right], dtype=np.int64)
        return [(sequence, MaskObserver((position,), self._top_k, asked, self._among))]

    def read(self, results: Sequence[MaskScores], right: Sequence[int]) -> Standing:
        (found,) = results
        check_finite([found.asked_logs, found.top_logs])
        top = zip(self._names_of(found.top_ids[0].tolist()), _at_most_0(found.top_logs[0]), strict=True)
        return Standing(found.asked_ranks[0].tolist(), _at_most_0(found.asked_logs[0]), list(top))

    def _names_of(self, tokens: Sequence[int]) -> list[str]:
        names = self._names
        return entry_names(self._tokenizer, tokens) if names is None else [names[token] for token in tokens]


class PhraseChoices:
    """Candidates of any number of pieces, each scored with as many masks; an object's number is its place among them."""

    def __init__(self, tokenizer: TextTokenizer, words: Sequence[str], before: str, top_k: int) -> None:
        self._words = words
        self._places = {word: place for place, word in enumerate(words)}
        members: dict[int, list[int]] = defaultdict(list)
        spelled = tokenizer.all_pieces_in_context(words, before)
        for place, pieces in enumerate(spelled):
            if pieces and tokenizer.unknown_id not in pieces:
                members[len(pieces)].append(place)
        self._members = {length: np.array(places) for length, places in sorted(members.items())}
        self._phrases = {
            length: Entries(np.array([spelled[place] for place in places], dtype=np.int64).T.ravel())
            for length, places in self._members.items()
        }
        self._written = {place for places in members.values() for place in places}
        self.size = self.scores = len(self._written)
        self.longest = max(members, default=1)
        self._top_k = min(top_k, self.size)

    def find(self, word: str, pieces: tuple[int, ...]) -> int | Skipped:
        place = self._places.get(word)
        if place is None:
            return Skipped.NOT_AMONG_CANDIDATES
        return place if place in self._written else Skipped.NOT_WRITABLE

    def rows(self, sequence: TokenSequence, position: int, right: Sequence[int]) -> list[tuple[TokenSequence, Observer]]:
        rows: list[tuple[TokenSequence, Observer]] = []
        for length, phrases in self._phrases.items():
            observer = PhraseObserver(tuple(range(position, position + length)), phrases)
            rows.append((with_masks(sequence, position, length), observer))
        return rows

    def read(self, results: Sequence[NDArray[np.float32]], right: Sequence[int]) -> Standing:
        check_finite(results)
        logs = np.full(len(self._words), -np.inf, dtype=np.float32)
        for places, means in zip(self._members.values(), results, strict=True):
            logs[places] = means
        found = logs[list(right)]
        ranks = [1 + int((logs > log).sum()) for log in found]
        chosen = np.argpartition(-logs, self._top_k - 1)[: self._top_k] if self._top_k else np.zeros(0, dtype=np.int64)
        chosen = chosen[np.argsort(-logs[chosen], kind="stable")]
        top = zip(chosen.tolist(), _at_most_0(logs[chosen]), strict=True)
        return Standing(ranks, _at_most_0(found), [(self._words[place], log) for place, log in top])


def _at_most_0(logs: NDArray[np.float32]) -> list[float]:
    """Returns logarithms of probabilities as numbers; rounding may have made one larger than 0."""
    found: list[float] = np.minimum(logs.astype(np.float64), 0.0).tolist()
    return found
