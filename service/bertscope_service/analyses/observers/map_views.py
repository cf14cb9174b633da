"""Keeps chosen maps of a row on the device while its layers run: whole, windows, or pictures of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.analyses.observers.word_maps import by_word
from bertscope_service.encoders.base import HeadSet
from bertscope_service.encoders.transfers import place_arrays

LEVELS = 255
"""The byte of weight 1."""


@dataclass(frozen=True, slots=True)
class MapView:
    """Cells of the maps of some heads: of `rows` and `columns`, each cell the maximum over `cell` x `cell` weights.

    dtype: uint8 for LEVELS times the weights, or a floating one. untouched: they are those of the untouched run.
    """

    heads: HeadSet
    rows: range
    columns: range
    cell: int
    dtype: torch.dtype
    untouched: bool = False

    @property
    def shape(self) -> tuple[int, int, int]:
        """Heads, rows and columns of cells."""
        count = sum(len(numbers) for _, numbers in self.heads)
        return count, math.ceil(len(self.rows) / self.cell), math.ceil(len(self.columns) / self.cell)

    @property
    def bytes(self) -> int:
        """Size of the cells."""
        return math.prod(self.shape) * self.dtype.itemsize


class ViewedMaps:
    """The views of one row, filled layer by layer.

    cells: of each view, as its shape and dtype say. sums: of the weights of each view and layer; not finite if one is not.
    """

    def __init__(self, views: Sequence[MapView], words: NDArray[np.int64] | None, length: int, device: torch.device) -> None:
        """words: number of the word of each token, int64 [length], for maps by word; None for maps by piece."""
        self.length = length
        indices = [_index(heads) for view in views for _, heads in view.heads]
        members = [] if words is None else [np.eye(int(words.max()) + 1, dtype=np.float32)[words]]
        placed = list(place_arrays(device, *members, *(index for index in indices if not isinstance(index, slice))))
        self.membership = placed.pop(0) if members else None
        chosen = iter([index if isinstance(index, slice) else placed.pop(0) for index in indices])
        self.cells = [torch.empty(view.shape, dtype=view.dtype, device=device) for view in views]
        self.sums: list[torch.Tensor] = []
        self._parts: dict[int, list[tuple[MapView, torch.Tensor, slice | torch.Tensor]]] = {}
        for view, cells in zip(views, self.cells, strict=True):
            begin = 0
            for layer, heads in view.heads:
                end = begin + len(heads)
                self._parts.setdefault(layer, []).append((view, cells[begin:end], next(chosen)))
                begin = end

    def take(self, layer: int, maps: torch.Tensor, untouched: torch.Tensor) -> None:
        """Keeps one layer's cells. maps, untouched: [heads, length, length] of both runs, padding included."""
        for view, cells, heads in self._parts.get(layer, ()):
            source = untouched if view.untouched else maps
            chosen = source[heads] if isinstance(heads, slice) else source.index_select(0, heads)
            chosen = chosen[:, : self.length, : self.length]
            if self.membership is not None:
                chosen = by_word(chosen, self.membership)
            chosen = chosen[:, view.rows.start : view.rows.stop, view.columns.start : view.columns.stop]
            if view.cell > 1:
                chosen = _maxima(chosen, view.cell)
            # A sum is infinite or NaN if a number is, and takes a fraction of the time of looking at each.
            self.sums.append(chosen.sum(dtype=torch.float32))
            cells.copy_((chosen * LEVELS).round_() if view.dtype is torch.uint8 else chosen)


def _maxima(weights: torch.Tensor, cell: int) -> torch.Tensor:
    """Returns the maxima of squares of `cell` x `cell` weights, the last ones smaller: [heads, rows, columns]. No weight is
    negative.

    PyTorch's max_pool2d takes eight times as long on a CPU.
    """
    heads, rows, columns = weights.shape
    padded = torch.nn.functional.pad(weights, (0, -columns % cell, 0, -rows % cell))
    narrow = padded.reshape(heads, -1, cell, padded.shape[2]).amax(dim=2)
    return narrow.reshape(heads, narrow.shape[1], -1, cell).amax(dim=3)


def _index(heads: Sequence[int]) -> slice | NDArray[np.int64]:
    """Returns heads as an index: consecutive ones as a slice, which copies nothing."""
    if tuple(heads) == tuple(range(heads[0], heads[-1] + 1)):
        return slice(heads[0], heads[-1] + 1)
    return np.array(heads, dtype=np.int64)
