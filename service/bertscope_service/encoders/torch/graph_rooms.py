"""The memory from which CUDA graphs read where the tokens of a batch lie, and the sizes that graphs have room for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from bertscope_service.encoders.unpadded import Tokens

SHORT, MIDDLE, ANY = 128, 512, 1 << 30


class RoomSize(NamedTuple):
    """The most tokens and rows of a batch that a graph runs, and the tokens of its longest row."""

    tokens: int
    rows: int
    longest: int


def _sizes(longest: int, tokens_a_row: int, *tokens: int) -> list[RoomSize]:
    return [RoomSize(each, each // tokens_a_row, min(each, longest)) for each in tokens]


ROOMS: tuple[RoomSize, ...] = (
    *_sizes(SHORT, 8, 64, 128, 256, 512, 768, 1024, 2048, 4096, 8192, 16_384),
    *_sizes(SHORT, 32, 2048, 3072, 4096, 6144, 8192, 10_240, 12_288, 14_336, 16_384),
    *_sizes(MIDDLE, 32, 512, 1024, 2048, 4096, 8192, 12_288, 16_384),
    *_sizes(ANY, 512, 1024, 2048, 4096, 8192, 16_384),
)
"""The sizes of graphs. The host of an H200 launches the layers of a bert-base in 7 ms, as long as 16,384 tokens compute in bf16,
and those of a bert-large in 12 ms, as long as 8,192 do. Where computing takes longer, so do the tokens that a batch lacks: large
sizes are close to each other for rows of up to 128 tokens, which most batches have.

A graph starts attention for all rows that it has room for, in blocks of 128 tokens of the longest one, whether they are there or
not: for 16,384 tokens, 512 blocks a head for short rows, and 2,048 for many short ones or for rows of up to 512. A model of at
most 512 tokens has 26 graphs. To capture one takes as long as a few batches by single launches: in all, about a second for a
bert-base, computed and not measured."""


def rooms_for(longest: int) -> list[RoomSize]:
    """Returns the sizes of a model whose rows have up to so many tokens, those that cost least first."""
    sizes = {room._replace(longest=min(room.longest, longest)) for room in ROOMS if _wanted(room, longest)}
    return sorted(sizes, key=lambda room: (room.tokens, room.rows * -(-room.longest // SHORT)))


def _wanted(room: RoomSize, longest: int) -> bool:
    """Returns whether a model has rows that fit no room for shorter ones."""
    shorter = max((bound for bound in (SHORT, MIDDLE) if bound < room.longest), default=0)
    return longest > shorter


class Room:
    """Memory of a device for the places of the tokens of a batch, at which graphs read them. `tokens`: these places, as layers
    read them; rows that a batch lacks are empty."""

    def __init__(self, size: RoomSize, device: torch.device) -> None:
        self.size = size
        self._memory = torch.zeros(self._numbers, dtype=torch.int64, device=device)
        starts, positions = self._parts(self._memory)
        self.tokens = Tokens((size.longest,), device)
        self.tokens.count, self.tokens.starts, self.tokens.positions = size.tokens, starts, positions[None]

    def fits(self, lengths: Sequence[int]) -> bool:
        """Returns whether there is room for rows of such lengths."""
        return len(lengths) <= self.size.rows and sum(lengths) <= self.size.tokens and max(lengths) <= self.size.longest

    def fill(self, lengths: Sequence[int]) -> None:
        """Copies the places of a batch to the device, in one copy that the host does not wait for."""
        # A new one for each batch: the one before may still be on its way.
        host = torch.zeros(self._numbers, dtype=torch.int64, device="cpu", pin_memory=True)
        starts, positions = (part.numpy() for part in self._parts(host))
        ends = np.cumsum(lengths)
        starts[1 : len(ends) + 1], starts[len(ends) + 1 :] = ends, ends[-1]
        positions[: ends[-1]] = np.arange(ends[-1]) - np.repeat(ends - lengths, lengths)
        self._memory.copy_(host, non_blocking=True)

    @property
    def _numbers(self) -> int:
        """The numbers of int64 that all parts take."""
        return self.size.rows // 2 + 1 + self.size.tokens

    def _parts(self, memory: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the first token of each row and the end of the last, int32 [rows + 1], and the positions of tokens, int64."""
        starts, positions = memory.split((self.size.rows // 2 + 1, self.size.tokens))
        return starts.view(torch.int32)[: self.size.rows + 1], positions
