"""Scores over the vocabulary at chosen positions of a batch's rows only."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import BatchEdits
from bertscope_service.encoders.size_limits import size_limits
from bertscope_service.encoders.state import State
from bertscope_service.encoders.transfers import place_arrays

FEW, FEW_ON_CPU = 16, 128
"""Up to this many entries, counting ranks is faster than sorting the whole vocabulary."""

BLOCK, MIN_BLOCKS = 64, 8
"""The columns of a block in `likeliest`, and the fewest blocks for each wanted entry with which that is faster."""

BLOCKS_PAY = not (torch.backends.cpu.get_cpu_capability() == "DEFAULT" and platform.machine() in ("x86_64", "AMD64"))
"""True where PyTorch finds the largest of a block with vector instructions: not on an x86 without AVX2."""


class Reading:
    """The positions to read in a batch's rows, flattened: `rows` and `places` are int64 [n] on the device, `parts` is the slice
    of each row. `others` are further arrays, placed on the device with these."""

    def __init__(self, encoder: Encoder, positions: Sequence[tuple[int, ...]], *others: NDArray[Any]) -> None:
        self.encoder = encoder
        self.counts = list(map(len, positions))
        self.parts = parts_of(self.counts)
        width = max(self.counts)
        if min(self.counts) == width:
            only = np.array(positions, dtype=np.int64)
        else:
            only = np.array([(*row, *(row[-1:] * (width - len(row)))) for row in positions], dtype=np.int64)
        rows = np.repeat(np.arange(len(positions)), self.counts)
        places = np.arange(len(rows)) - np.repeat([part.start for part in self.parts], self.counts)
        self.only, self.rows, self.places, *self.others = place_arrays(encoder.device, only, rows, places, *others)

    def split(self, array: NDArray[Any]) -> list[NDArray[Any]]:
        """Returns the part of each row in an array [n, ...]: views, the same one for rows of as many positions if they are
        empty."""
        if array.size:
            return [array[part] for part in self.parts]
        empty = {count: array[:count] for count in set(self.counts)}
        return [empty[count] for count in self.counts]

    def advance(self, state: State, edits: BatchEdits | None) -> None:
        """Runs the remaining layers, the last one only at these positions."""
        self.encoder.advance(state, self.encoder.shape.layers, edits, only=self.only)

    def logits(self, state: State) -> Iterator[tuple[slice, torch.Tensor]]:
        """Yields scores over the vocabulary at all positions, [m, vocabulary] at a time, with their slice of the flat
        positions."""
        chunk = max(1, size_limits(self.encoder.device).logits_bytes // (4 * self.encoder.shape.vocabulary_size))
        for begin in range(0, len(self.rows), chunk):
            part = slice(begin, begin + chunk)
            yield part, self.encoder.logits(state, self.rows[part], self.places[part])


def parts_of(counts: Sequence[int]) -> list[slice]:
    """Returns the slice of each row in positions that are flattened, of how many each row has."""
    ends = list(accumulate(counts))
    return list(map(slice, (0, *ends), ends))


def likeliest(logits: torch.Tensor, top_k: int) -> torch.Tensor:
    """Returns the ids of the largest scores of each row, int64 [n, top_k], the largest first, from scores [n, vocabulary].

    On a CPU, the largest of each block of columns decide first which blocks can hold one: finding the largest of a block is
    vectorised, `topk` is not.
    """
    count, vocabulary = logits.shape
    blocks = vocabulary // BLOCK
    if logits.device.type != "cpu" or not BLOCKS_PAY or top_k * MIN_BLOCKS > blocks:
        return logits.topk(top_k, dim=-1).indices
    whole = blocks * BLOCK
    largest = logits[:, :whole].unflatten(1, (blocks, BLOCK)).amax(dim=-1)
    chosen = largest.topk(top_k, dim=-1, sorted=False).indices
    columns = torch.arange(BLOCK, dtype=torch.int64, device=logits.device)
    rest = torch.arange(whole, vocabulary, dtype=torch.int64, device=logits.device).expand(count, -1)
    places = torch.cat((torch.add(columns, chosen[:, :, None], alpha=BLOCK).flatten(1), rest), dim=1)
    return places.gather(1, logits.gather(1, places).topk(top_k, dim=-1).indices)


def log_probabilities(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Returns the natural logarithms of probabilities over the vocabulary of some ids [n, C], from scores [n, vocabulary].

    PyTorch has no faster way to the sum of the exponentials on a CPU: `logsumexp` takes 1.4 times as long.
    """
    rows = rows_at_a_time(logits)
    if len(logits) <= rows:
        return logits.log_softmax(dim=-1).gather(1, ids)
    parts = zip(logits.split(rows), ids.split(rows), strict=True)
    return torch.cat([scores.log_softmax(dim=-1).gather(1, asked) for scores, asked in parts])


def ranks_of(logits: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
    """Ranks scores [n, C] among all [n, vocabulary]: 1 + the number of entries that are strictly likelier, int64 [n, C]."""
    on_cpu = logits.device.type == "cpu"
    if found.shape[1] > (FEW_ON_CPU if on_cpu else FEW):
        order = logits.sort(dim=-1).values
        return 1 + logits.shape[1] - torch.searchsorted(order, found, right=True)
    if not on_cpu:
        return torch.stack([(logits > column[:, None]).sum(dim=1) + 1 for column in found.unbind(dim=1)], dim=1)
    # A CPU adds float32 a few times faster than truth values, exactly up to 16,777,216 entries.
    rows = rows_at_a_time(logits)
    above, counts = torch.empty_like(logits[:rows]), torch.empty_like(found)
    for scores, asked, sums in zip(logits.split(rows), found.split(rows), counts.split(rows), strict=True):
        for column in range(found.shape[1]):
            likelier = torch.gt(scores, asked[:, column, None], out=above[: len(scores)])
            torch.sum(likelier, dim=1, out=sums[:, column])
    return counts.long() + 1


def rows_at_a_time(logits: torch.Tensor) -> int:
    """Returns how many rows of scores [n, vocabulary] to work on at a time, so that what is made of them fits a CPU's cache."""
    return max(1, size_limits(logits.device).softmax_bytes // (4 * logits.shape[1]))


def widen(asked: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """Pads ids to score, [P, C], with columns of zeros up to `width`."""
    missing = width - asked.shape[1]
    return np.pad(asked, ((0, 0), (0, missing))) if missing else asked
