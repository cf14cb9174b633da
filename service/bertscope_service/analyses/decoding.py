"""Fills several masks of a text jointly: each is predicted with the entries chosen before in place.

The score of a filling is the sum of the natural logarithms of the entries' probabilities over the whole vocabulary, each at its
own mask, with the entries chosen before it in place and all other masks still open. It depends on the order of filling, so it
is no probability of the text: a masked language model defines none. The orders are those of Jiang et al. 2020, section 3.3.

All texts advance together, one mask of each a round, so that a round is one batch of rows whatever the number of texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from math import fsum

import numpy as np

from bertscope_service.analyses.observers.masks import MaskObserver, MaskScores
from bertscope_service.analyses.rounds import Rounds
from bertscope_service.analyses.texts import check_finite
from bertscope_service.encoders.sequences import TokenSequence


class Decoding(Enum):
    """The order in which masks are filled, and the number of partial fillings that are kept."""

    LEFT_TO_RIGHT = "left_to_right"
    """The first mask first; the likeliest entry is kept."""
    CONFIDENCE_FIRST = "confidence_first"
    """The mask whose likeliest entry is the most probable first, the left one of equal ones; that entry is kept."""
    BEAM = "beam"
    """The first mask first; the `width` likeliest partial fillings are kept."""


@dataclass(frozen=True, slots=True)
class Blanks:
    """A sequence, and the positions in it that are to be filled, ascending, at least one. They hold masks."""

    sequence: TokenSequence
    positions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Filling:
    """One entry for each position, in the order of the positions.

    logs: the natural logarithm of each entry's probability when it was chosen. steps: when that was, from 0.
    """

    ids: tuple[int, ...]
    logs: tuple[float, ...]
    steps: tuple[int, ...]

    @property
    def log_probability(self) -> float:
        """The sum over positions."""
        return fsum(self.logs)

    @property
    def mean_log_probability(self) -> float:
        """The mean over positions, by which fillings of different lengths compare."""
        return fsum(self.logs) / len(self.logs)


def count_rows(positions: int, decoding: Decoding, width: int) -> int:
    """Returns the largest number of rows that filling so many positions of a text takes."""
    return 1 + (positions - 1) * width if decoding is Decoding.BEAM else positions


class Decoder(Rounds):
    """The rounds that fill sequences, each with its `top_k` likeliest fillings.

    The last mask of a sequence to be filled gets the `top_k` likeliest entries, and the others the likeliest (`width` with
    BEAM), so that a sequence of one mask gets its `top_k` entries however it is decoded. Greedy decoding is thus a beam of
    width 1. `width` and `top_k` are at most the size of the vocabulary.
    """

    def __init__(self, blanks: Sequence[Blanks], decoding: Decoding, *, top_k: int, width: int = 1) -> None:
        self._observers: dict[tuple[tuple[int, ...], int], MaskObserver] = {}
        kept = width if decoding is Decoding.BEAM else 1
        self._searches = [_Search(blank, top_k, kept, decoding is Decoding.CONFIDENCE_FIRST) for blank in blanks]
        self._make_rows()

    def advance(self, results: Sequence[MaskScores]) -> None:
        """See Rounds. Raises FailedPrecondition for scores that are not finite."""
        check_finite(found.top_logs for found in results)
        remaining = iter(results)
        for search in self._searches:
            if search.open:
                search.extend(list(islice(remaining, len(search.partial))))
        self._make_rows()

    @property
    def fillings(self) -> list[list[Filling]]:
        """The fillings of each sequence, likeliest first; after the last round."""
        return [[partial.filling() for partial in search.partial] for search in self._searches]

    def _make_rows(self) -> None:
        self.rows = []
        for search in self._searches:
            if search.open:
                self.rows += [(search.fill(partial), self._observer(search, partial)) for partial in search.partial]

    def _observer(self, search: _Search, partial: _Partial) -> MaskObserver:
        """Returns the observer of a row; rows that read the same share one."""
        asked = search.asked(partial), search.wanted
        found = self._observers.get(asked)
        if found is None:
            found = self._observers[asked] = MaskObserver(*asked, np.zeros((len(asked[0]), 0), dtype=np.int64))
        return found


@dataclass(frozen=True, slots=True)
class _Partial:
    """A filling under way: the number, entry and logarithm of each mask, in the order in which they were filled."""

    numbers: tuple[int, ...] = ()
    ids: tuple[int, ...] = ()
    logs: tuple[float, ...] = ()
    total: float = 0.0

    def filling(self) -> Filling:
        steps = sorted(range(len(self.numbers)), key=self.numbers.__getitem__)
        return Filling(tuple(self.ids[step] for step in steps), tuple(self.logs[step] for step in steps), tuple(steps))


class _Search:
    """The search in one sequence. All of its partial fillings have as many masks filled."""

    def __init__(self, blanks: Blanks, top_k: int, kept: int, confident: bool) -> None:
        self.blanks, self._top_k, self._kept, self._confident = blanks, top_k, kept, confident
        self.partial = [_Partial()]

    @property
    def open(self) -> int:
        """The number of masks that are still to be filled."""
        return len(self.blanks.positions) - len(self.partial[0].numbers)

    @property
    def wanted(self) -> int:
        """The number of entries to read at a mask, and of partial fillings to keep in this round."""
        return self._top_k if self.open == 1 else self._kept

    def _choices(self, partial: _Partial) -> list[int]:
        """Returns the numbers of the masks of which one may be filled next."""
        numbers = [number for number in range(len(self.blanks.positions)) if number not in partial.numbers]
        return numbers if self._confident else numbers[:1]

    def asked(self, partial: _Partial) -> tuple[int, ...]:
        """Returns the positions to read."""
        return tuple(self.blanks.positions[number] for number in self._choices(partial))

    def fill(self, partial: _Partial) -> TokenSequence:
        """Returns the sequence with the chosen entries in place."""
        if not partial.numbers:
            return self.blanks.sequence
        ids = list(self.blanks.sequence.ids)
        for number, token in zip(partial.numbers, partial.ids, strict=True):
            ids[self.blanks.positions[number]] = token
        return self.blanks.sequence.with_ids(ids)

    def extend(self, scores: Sequence[MaskScores]) -> None:
        """Fills one more mask of each partial filling, and keeps the likeliest results."""
        places = [int(found.top_logs[:, 0].argmax()) for found in scores]
        logs = np.stack([found.top_logs[place] for found, place in zip(scores, places, strict=True)])
        logs = np.minimum(logs.astype(np.float64), 0.0)
        totals = logs + np.array([partial.total for partial in self.partial])[:, None]
        kept = np.argsort(-totals, axis=None, kind="stable")[: self.wanted]
        self.partial = [
            self._extended(self.partial[row], places[row], int(scores[row].top_ids[places[row], column]), logs[row, column])
            for row, column in zip(*map(np.ndarray.tolist, np.unravel_index(kept, totals.shape)), strict=True)
        ]

    def _extended(self, partial: _Partial, place: int, token: int, log: np.float64) -> _Partial:
        number = self._choices(partial)[place]
        value = float(log)
        return _Partial((*partial.numbers, number), (*partial.ids, token), (*partial.logs, value), partial.total + value)
