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
from bertscope_service.errors import InvalidArgument


class PositionKind(Enum):
    """A kind of position; see bertscope.v1.Positions.Kind."""

    ALL = "all"
    MASKS = "masks"
    FIRST = "first"
    SPECIAL = "special"
    NOT_SPECIAL = "not special"


@dataclass(frozen=True, slots=True)
class Where:
    """Positions by their kind, by parts of the text, or by the numbers of tokens; a `Finder`.

    count: the number of vectors that the change has for them, None if all get the same. field: the path of the change in the
    request, for errors.
    """

    which: PositionKind | Sequence[Span] | NDArray[np.int64]
    tokenizer: TextTokenizer
    field: str
    count: int | None = None

    def __call__(self, sequence: TokenSequence) -> NDArray[np.int64]:
        found = self._find(sequence)
        if self.count is not None and len(found) != self.count:
            message = (
                f"{self.field} has vectors for {self.count} positions and changes {len(found)} of a text of {len(sequence)} "
                "tokens; give positions of which both have as many"
            )
            raise InvalidArgument(self.field, message, "POSITIONS_MISMATCH")
        return found

    def _find(self, sequence: TokenSequence) -> NDArray[np.int64]:
        which = self.which
        if isinstance(which, np.ndarray):
            if which[-1] >= len(sequence):
                field = f"{self.field}.positions.tokens"
                message = f"{field} names token {which[-1]} and a text has {len(sequence)} tokens, from 0; leave it out"
                raise InvalidArgument(field, message, "POSITION_OUT_OF_RANGE")
            return which
        if isinstance(which, PositionKind):
            return np.flatnonzero(self._of_kind(which, sequence))
        if sequence.starts is None:
            field = f"{self.field}.positions.spans"
            message = f"{field} can't be found in texts that this question makes; name tokens or a kind of position"
            raise InvalidArgument(field, message, "CHANGE_UNUSABLE")
        starts = sequence.starts()
        inside = np.zeros(len(starts), dtype=np.bool_)
        for span in which:
            inside |= (starts[:, 0] == span.segment) & (starts[:, 1] >= span.start) & (starts[:, 1] < span.end)
        return np.flatnonzero(inside)

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
