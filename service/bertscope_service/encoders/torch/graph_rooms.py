"""The memory from which CUDA graphs read where the tokens of a batch lie, and the sizes that graphs have room for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.encoders.unpadded import Tokens, positions_of, starts_of

SHORT, MIDDLE, ANY = 128, 512, 1 << 30

MOST_MASKS = 64
"""Masks of a row that a graph reads: attention takes no longer for so many than for one."""

LEAST_ROWS = 16
"""Rows, and masks, that every graph has room for: scores of so many take hardly longer than those of one."""


class RoomSize(NamedTuple):
    """The tokens and rows of a batch, or masks if they are more, and the tokens of its longest row; or the most of them that a
    graph runs."""

    tokens: int
    rows: int
    longest: int

    @classmethod
    def of(cls, lengths: Sequence[int], masks: int = 0) -> RoomSize:
        """Returns what rows of such lengths need, and so many masks."""
        return cls(sum(lengths), max(len(lengths), masks), max(lengths))

    def holds(self, other: RoomSize) -> bool:
        """Returns whether there is room for what another one needs."""
        return other.tokens <= self.tokens and other.rows <= self.rows and other.longest <= self.longest


def _sizes(longest: int, tokens_a_row: int, *tokens: int) -> list[RoomSize]:
    return [RoomSize(each, max(LEAST_ROWS, each // tokens_a_row), min(each, longest)) for each in tokens]


ROOMS: tuple[RoomSize, ...] = (
    *_sizes(SHORT, 8, 64, 128, 256, 512, 768, 1024, 2048, 4096, 8192, 16_384),
    *_sizes(SHORT, 32, 2048, 3072, 4096, 6144, 8192, 10_240, 12_288, 14_336, 16_384),
    *_sizes(MIDDLE, 32, 512, 1024, 2048, 4096, 8192, 12_288, 16_384),
    *_sizes(ANY, 512, 1024, 2048, 4096, 8192, 16_384),
)
"""The sizes of graphs. The host of an H200 launches the layers of a bert-base in 7 ms, as long as 16,384 tokens compute in
bf16, and those of a bert-large in 12 ms, as long as 8,192 do. Where computing takes longer, so do the tokens that a batch
lacks: large sizes are close to each other for rows of up to 128 tokens, which most batches have.

A graph starts attention for all rows that it has room for, in blocks of 128 tokens of the longest one, whether they are there
or not: for 16,384 tokens, 512 blocks a head for short rows, and 2,048 for many short ones or for rows of up to 512. A model of
at most 512 tokens has 26 rooms, one of more tokens 31. To capture the graphs of one takes as long as six batches by single
launches, 40 ms for a bert-base: in all a second when a model is loaded, computed and not measured."""


def rooms_for(longest: int) -> list[RoomSize]:
    """Returns the sizes of a model whose rows have up to so many tokens, those that cost least first."""
    sizes = {room._replace(longest=min(room.longest, longest)) for room in ROOMS if _wanted(room, longest)}
    return sorted(sizes, key=lambda room: (room.tokens, room.rows * -(-room.longest // SHORT)))


def _wanted(room: RoomSize, longest: int) -> bool:
    """Returns whether a model has rows that fit no room for shorter ones."""
    shorter = max((bound for bound in (SHORT, MIDDLE) if bound < room.longest), default=0)
    return longest > shorter


class Room:
    """Memory of a device for the tokens of a batch, at which graphs read them: their places as `tokens`, in which rows that a
    batch lacks are empty; `ids` and `segments`, int64 [1, tokens]; and `masks`, the tokens to read, int64 [rows]."""

    def __init__(self, size: RoomSize, device: torch.device) -> None:
        self.size = size
        self._memory = torch.zeros(sum(self._numbers), dtype=torch.int64, device=device)
        self._starts, self._queries, self.masks, *of_tokens = self._parts(self._memory)
        self._positions, self.ids, self.segments = (part[None] for part in of_tokens)
        self.tokens = self.rows(size.rows)

    def rows(self, rows: int) -> Tokens:
        """Returns the tokens of so many rows."""
        return self._tokens(self._starts[: rows + 1], self.size.tokens, self.size.longest)

    def queries(self, rows: int) -> Tokens:
        """Returns the masks of so many rows, as tokens that lie one behind the other."""
        return self._tokens(self._queries[: rows + 1], rows, MOST_MASKS)

    def _tokens(self, starts: torch.Tensor, count: int, longest: int) -> Tokens:
        tokens = Tokens((longest,), starts.device)
        tokens.count, tokens.starts, tokens.positions = count, starts, self._positions
        return tokens

    def fill(
        self,
        lengths: Sequence[int],
        of_tokens: Sequence[NDArray[np.int64]] = (),
        positions: Sequence[Sequence[int]] = (),
    ) -> None:
        """Copies a batch to the device, in one copy that the host does not wait for: the places of its tokens, their ids and
        segments if `of_tokens` has them, and the positions of masks in each row."""
        # A new one for each batch: the one before may still be on its way.
        host = torch.zeros(len(self._memory), dtype=torch.int64, device="cpu", pin_memory=True)
        starts, queries, masks, *parts = (part.numpy() for part in self._parts(host))
        counts = np.fromiter(map(len, positions), np.int64)
        for part, known in ((starts, starts_of(lengths)), (queries, starts_of(counts.tolist()))):
            part[: len(known)], part[len(known) :] = known, known[-1]
        masks[: counts.sum()] = np.fromiter(chain.from_iterable(positions), np.int64) + np.repeat(starts[: len(counts)], counts)
        for part, values in zip(parts, (positions_of(lengths), *of_tokens), strict=False):
            part[: len(values)] = values
        self._memory.copy_(host, non_blocking=True)

    @property
    def _numbers(self) -> tuple[int, ...]:
        """How many numbers of int64 each part takes; the first holds two parts of int32."""
        return (self.size.rows + 1, self.size.rows, *(self.size.tokens,) * 3)

    def _parts(self, memory: torch.Tensor) -> list[torch.Tensor]:
        """Returns the first token of each row and the end of the last, likewise of the tokens to read, int32 [rows + 1] both,
        and in int64 the tokens to read, and of all tokens positions, ids and segments."""
        starts, *rest = memory.split(self._numbers)
        return [*starts.view(torch.int32).view(2, -1), *rest]
