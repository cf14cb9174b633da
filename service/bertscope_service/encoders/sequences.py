"""Defines the sequence of tokens that a model reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(slots=True)
class TokenSequence:
    """One token sequence: ids and segment (token type) ids, equally long, special tokens included.

    `starts` finds where each token begins in its text, if that is known: int64 [tokens, 2], the number of the text (0, or 1 for
    the second of a pair) and the first code point; (-1, -1) for tokens that the tokenizer added.
    """

    ids: Sequence[int] | NDArray[np.int64]
    segments: Sequence[int] | NDArray[np.int64]
    starts: Callable[[], NDArray[np.int64]] | None = field(default=None, compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.ids)

    def starts_at(self, select: Callable[[NDArray[np.int64]], NDArray[np.int64]]) -> Callable[[], NDArray[np.int64]] | None:
        """Returns `starts` of a sequence whose tokens are chosen from this one's."""
        starts = self.starts
        return None if starts is None else lambda: select(starts())

    def with_ids(self, ids: Sequence[int] | NDArray[np.int64]) -> TokenSequence:
        """Returns a sequence of other ids at the same positions."""
        return TokenSequence(ids, self.segments, self.starts)
