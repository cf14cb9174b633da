"""Finds the positions of a change in the sequences of a request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.words import Span
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.sites import Found
from bertscope_service.errors import InvalidArgument


class PositionKind(Enum):
    """A kind of position; see bertscope.v1.Positions.Kind."""

    ALL = "all"
    MASKS = "masks"
    FIRST = "first"
    SPECIAL = "special"
    NOT_SPECIAL = "not special"


class Spans:
    """Parts of a text, or of both texts of a pair."""

    def __init__(self, spans: Sequence[Span]) -> None:
        segments, begins, ends = np.array([(one.segment, one.start, one.end) for one in spans], dtype=np.int64).T
        self._begins, self._ends = _places(segments, begins), _places(segments, ends)

    def __len__(self) -> int:
        return len(self._begins)

    def find(self, sequence: TokenSequence, found: Found) -> NDArray[np.int64] | None:
        """Returns the tokens that begin in these parts, ascending; None if it is not known where tokens begin. The order of
        places is the same for all spans, and kept in `found`."""
        if sequence.starts is None:
            return None
        if "order" not in found:
            starts = sequence.starts()
            places = _places(starts[:, 0], starts[:, 1])
            found["order"] = np.argsort(places, kind="stable")
            found["places"] = places[found["order"]]
        order, places = found["order"], found["places"]
        borders = np.zeros(len(places) + 1, dtype=np.int64)
        np.add.at(borders, np.searchsorted(places, self._begins), 1)
        np.add.at(borders, np.searchsorted(places, self._ends), -1)
        return np.sort(order[np.cumsum(borders[:-1]) > 0])


def _places(segments: NDArray[np.int64], characters: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns one number for each place in a pair of texts, ascending; tokens that the tokenizer added have numbers below 0."""
    return (segments << 32) + characters


@dataclass(frozen=True, slots=True, eq=False)
class Where:
    """Positions by their kind, by parts of the text, or by the numbers of tokens; a `Finder`.

    count: the number of vectors that the change has for them, None if all get the same. field: the path of the change in the
    request, for errors.
    """

    which: PositionKind | Spans | NDArray[np.int64]
    tokenizer: TextTokenizer
    field: str
    count: int | None = None

    def __call__(self, sequence: TokenSequence, found: Found) -> NDArray[np.int64]:
        key = self.which if isinstance(self.which, PositionKind) else id(self.which)
        positions = found.get(key)
        if positions is None:
            positions = found[key] = self._find(sequence, found)
        if self.count is not None and len(positions) != self.count:
            told = f"{self.field} has vectors for {self.count} positions and changes {len(positions)} of a text"
            message = f"{told} of {len(sequence)} tokens; give positions of which both have as many"
            raise InvalidArgument(self.field, message, "POSITIONS_MISMATCH")
        return positions

    def _find(self, sequence: TokenSequence, found: Found) -> NDArray[np.int64]:
        which = self.which
        if isinstance(which, np.ndarray):
            if which[-1] >= len(sequence):
                field = f"{self.field}.positions.tokens"
                message = f"{field} names token {which[-1]} and a text has {len(sequence)} tokens, from 0; leave it out"
                raise InvalidArgument(field, message, "POSITION_OUT_OF_RANGE")
            return which
        if isinstance(which, PositionKind):
            return np.flatnonzero(self._of_kind(which, sequence))
        positions = which.find(sequence, found)
        if positions is None:
            field = f"{self.field}.positions.spans"
            message = f"{field} can't be found in texts that this question makes; name tokens or a kind of position"
            raise InvalidArgument(field, message, "CHANGE_UNUSABLE")
        return positions

    def _of_kind(self, kind: PositionKind, sequence: TokenSequence) -> NDArray[np.bool_]:
        ids = np.asarray(sequence.ids)
        found: NDArray[np.bool_] = np.ones(len(ids), dtype=np.bool_)
        if kind is PositionKind.MASKS:
            found = ids == (-1 if self.tokenizer.mask_id is None else self.tokenizer.mask_id)
        elif kind is PositionKind.FIRST:
            found[1:] = False
        elif kind is not PositionKind.ALL:
            special = sequence.starts()[:, 0] < 0 if sequence.starts is not None else np.isin(ids, self.tokenizer.special_ids)
            found = special if kind is PositionKind.SPECIAL else ~special
        return found
