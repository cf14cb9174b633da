"""Attention between words: which word each piece belongs to, and maps by word from maps by piece (Clark et al. 2019, section
4.1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

SPECIAL = -1
"""The segment of special tokens in `Words.segments`."""

NOWHERE = -1
"""The place of a word without a piece of its own."""


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """The words of a text, special tokens included, in the order of their first pieces.

    of_piece: word of each piece, int64 [pieces]. segments: segment of each word, SPECIAL for a special token, int64 [words].
    places: word for each span that the caller gave, NOWHERE for one without a piece.
    """

    of_piece: NDArray[np.int64]
    segments: NDArray[np.int64]
    places: tuple[int, ...]


def by_word(maps: torch.Tensor, membership: torch.Tensor) -> torch.Tensor:
    """Converts maps by piece [..., tokens, tokens] to maps by word [..., words, words].

    Attention to a split word is the sum over its pieces, attention from it their mean (Clark et al. 2019, section 4.1), so
    rows still sum to 1. membership: [..., tokens, words], 1 where a token belongs to a word; every token belongs to one, and
    padding to none. A word without a token gets zeros.
    """
    received = maps.float() @ membership
    return (membership / membership.sum(dim=-2, keepdim=True).clamp(min=1)).transpose(-2, -1) @ received
