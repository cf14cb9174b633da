"""Places rows on a device, shorter ones filled up."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.state import real_positions
from bertscope_service.encoders.transfers import place_arrays


class PlacedRows(NamedTuple):
    """Rows on a device: token and segment ids, int64 [rows, longest], the length of each row, and the mask of real positions,
    bool [rows, longest], None if no row is padded."""

    ids: torch.Tensor
    segments: torch.Tensor
    lengths: tuple[int, ...]
    valid: torch.Tensor | None


def place_rows(sequences: Sequence[TokenSequence], device: torch.device, padding: int = 0) -> PlacedRows:
    """Places rows on a device; shorter ones are filled with `padding`, and with segment 0."""
    lengths = tuple(map(len, sequences))
    real = real_positions(lengths)
    ids = _padded([sequence.ids for sequence in sequences], real, padding)
    segments = _padded([sequence.segments for sequence in sequences], real, 0)
    placed = place_arrays(device, ids, segments, *(() if real is None else (real,)))
    return PlacedRows(placed[0], placed[1], lengths, None if real is None else placed[2])


def _padded(
    rows: Sequence[Sequence[int] | NDArray[np.int64]], real: NDArray[np.bool_] | None, padding: int
) -> NDArray[np.int64]:
    """Returns rows as an array [rows, longest]; `real` marks the positions that they fill, None for all."""
    flat = flat_rows(rows)
    if real is None:
        return flat.reshape(len(rows), -1)
    padded = np.full(real.shape, padding, dtype=np.int64)
    padded[real] = flat
    return padded


def flat_rows(rows: Sequence[Sequence[int] | NDArray[np.int64]]) -> NDArray[np.int64]:
    """Returns the numbers of all rows, one after another."""
    if any(isinstance(row, np.ndarray) for row in rows):
        return np.concatenate(rows)  # the elements of an array take much longer, one by one, than those of a list
    return np.fromiter(chain.from_iterable(rows), np.int64)
