"""Scores over the vocabulary at chosen positions of a batch's rows only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.encoders.base import BatchGates, Encoder
from bertscope_service.encoders.state import State, to_device

LOGITS_BYTES = 64 * 1024 * 1024
"""Maximum size of the scores over the vocabulary that are held at a time, bytes."""

FEW = 16
"""Up to this many entries, counting ranks is faster than sorting the whole vocabulary."""


class Reading:
    """The positions to read in a batch's rows, flattened: `rows` and `places` are int64 [n] on the device."""

    def __init__(self, encoder: Encoder, positions: Sequence[tuple[int, ...]]) -> None:
        self.encoder = encoder
        self.counts = [len(row) for row in positions]
        self.ends = np.cumsum(self.counts)[:-1]
        width = max(self.counts)
        only = np.array([(*row, *(row[-1:] * (width - len(row)))) for row in positions], dtype=np.int64)
        rows = np.repeat(np.arange(len(positions)), self.counts)
        places = np.concatenate([np.arange(count) for count in self.counts])
        self.only, self.rows, self.places = (to_device(torch.from_numpy(a), encoder.device) for a in (only, rows, places))

    def advance(self, state: State, gates: BatchGates | None) -> None:
        """Runs the remaining layers, the last one only at these positions."""
        self.encoder.advance(state, self.encoder.shape.layers, gates, only=self.only)

    def logits(self, state: State) -> Iterator[tuple[slice, torch.Tensor]]:
        """Yields scores over the vocabulary at all positions, [m, vocabulary] at a time, with their slice of the flat
        positions."""
        chunk = max(1, LOGITS_BYTES // (4 * self.encoder.shape.vocabulary_size))
        for begin in range(0, len(self.rows), chunk):
            part = slice(begin, begin + chunk)
            yield part, self.encoder.logits(state, self.rows[part], self.places[part])


def ranks_of(logits: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
    """Ranks scores [n, C] among all [n, vocabulary]: 1 + the number of entries that are strictly likelier, int64 [n, C]."""
    if found.shape[1] <= FEW:
        return torch.stack([(logits > column[:, None]).sum(dim=1) + 1 for column in found.unbind(dim=1)], dim=1)
    order = logits.sort(dim=-1).values
    return 1 + logits.shape[1] - torch.searchsorted(order, found, right=True)


def widen(asked: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """Pads ids to score, [P, C], with columns of zeros up to `width`."""
    missing = width - asked.shape[1]
    return np.pad(asked, ((0, 0), (0, missing))) if missing else asked
