"""The units of a text that may be absent, and the text without some of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.observers.word_maps import NOWHERE
from bertscope_service.analyses.state_units import StatesInput, Unit, rows_of
from bertscope_service.analyses.words import Word
from bertscope_service.checkpoints.tokenized_text import Piece, TokenizedText
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import InvalidArgument


class Absent(Enum):
    """The trace that an absent unit leaves; see bertscope.v1.AbsentText."""

    MASK = "mask"
    DELETED = "deleted"
    ZERO = "zero"


@dataclass(frozen=True, slots=True, eq=False)
class TextUnits:
    """A text and its units: `tokens` has each unit, `of` the number of each position's unit, int64 [length], NOWHERE for those
    that are never absent. ids, segments: int64 [length]."""

    tokenized: TokenizedText
    tokens: Sequence[Piece | Word]
    of: NDArray[np.int64]
    ids: NDArray[np.int64]
    segments: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.tokens)

    def kept(self, present: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Returns the positions that are left if only some units, bool [units], are present."""
        return np.flatnonzero(self._there(present))

    def without(self, present: NDArray[np.bool_], mask_id: int | None) -> TokenSequence:
        """Returns the text with masks at units that are not present, or without these if `mask_id` is None."""
        if mask_id is None:
            kept = self.kept(present)
            starts = self.tokenized.sequence.starts_at(itemgetter(kept))
            return TokenSequence(self.ids[kept], self.segments[kept], starts)
        return self.tokenized.sequence.with_ids(np.where(self._there(present), self.ids, mask_id))

    def _there(self, present: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return np.append(present, True)[self.of]  # NOWHERE is -1: the entry behind all units


def find_units(
    tokenized: TokenizedText, unit: Unit, given: StatesInput, tokenizer: TextTokenizer, field: str, prompt: int = 0
) -> TextUnits:
    """Finds the units of a text, or its marked parts. Special tokens, masks, and the first `prompt` code points belong to none.

    Raises InvalidArgument for a text without a unit, and for a marked part without a piece, or of masks alone.
    """
    if given.spans:
        unit = Unit.SPAN
    tokens, groups = rows_of(unit, given, tokenized, tokenizer, field)
    places = [[place] for place in range(len(tokens))] if groups is None else groups
    ids = np.array(tokenized.sequence.ids, dtype=np.int64)
    which = tokenized.encoding.sequence_ids
    special = {token for token, text in zip(ids.tolist(), which, strict=True) if text is None} | {tokenizer.mask_id}
    of, found = np.full(len(ids), NOWHERE, dtype=np.int64), list[Piece | Word]()
    for index, (token, group) in enumerate(zip(tokens, places, strict=True)):
        own = [place for place in group if ids[place] not in special and tokenized.span(place)[0] >= prompt]
        if own:
            of[own] = len(found)
            found.append(token)
        elif unit is Unit.SPAN:
            name = f"{field}.spans[{index}]"
            message = f"{name} holds nothing but masks and special tokens, which are never absent; leave it out"
            raise InvalidArgument(name, message, "NO_UNITS")
    if not found:
        message = f"{field} has no word that could be absent; write some words beside the mask"
        raise InvalidArgument(field, message, "NO_UNITS")
    return TextUnits(tokenized, found, of, ids, np.array(tokenized.sequence.segments, dtype=np.int64))
