"""Keeps the requested maps of a batch's rows on the device while its layers run, without padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.analyses.observers.word_maps import by_word
from bertscope_service.encoders.size_limits import size_limits
from bertscope_service.encoders.transfers import place_arrays


class Asking(Protocol):
    """Says what is requested of a row: layers, heads in any order, and a number format; maps by word if there are `words`, the
    word of each token [tokens]."""

    @property
    def layers(self) -> tuple[int, ...]: ...

    @property
    def heads(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> torch.dtype: ...

    @property
    def words(self) -> NDArray[np.int64] | None: ...


class KeptMaps:
    """The maps of a batch: `maps` holds those of each row, [layers, heads, size, size].

    A GPU takes the maps of all rows out of a layer's at once, if the places of their numbers fit into its limit for maps. A CPU
    copies them row by row, which needs no places.
    """

    def __init__(self, rows: Sequence[Asking], lengths: Sequence[int], heads: int, device: torch.device) -> None:
        """`heads`: those of a layer's maps."""
        self._rows = rows
        sizes = [length if row.words is None else int(row.words.max()) + 1 for row, length in zip(rows, lengths, strict=True)]
        shapes = [(len(row.layers), len(row.heads), size, size) for row, size in zip(rows, sizes, strict=True)]
        self.maps = [torch.empty(shape, dtype=row.dtype, device=device) for row, shape in zip(rows, shapes, strict=True)]
        numbers = sum(maps[0].numel() for maps in self.maps if len(maps))
        together = device.type != "cpu" and 4 * numbers <= size_limits(device).map_bytes
        self._cuts: list[_RowCut | _RowsCut] = []
        for whole in (True, False) if together else ():
            chosen = [row for row, one in enumerate(rows) if (one.words is None) is whole]
            if chosen:
                self._cuts.append(_RowsCut(rows, chosen, lengths, sizes, heads, device))
        if not together:
            self._cuts += [_RowCut(row, number, lengths[number], device) for number, row in enumerate(rows)]

    def take(self, layer: int, maps: torch.Tensor) -> None:
        """Keeps the maps of a layer that is requested for some row. maps: [rows, heads, length, length], padding included."""
        pairs = []
        for row, own in (pair for cut in self._cuts for pair in cut.take(layer, maps)):
            kept = self.maps[row][self._rows[row].layers.index(layer)]
            pairs.append((kept, own.view_as(kept)))
        torch._foreach_copy_([kept for kept, _ in pairs], [own for _, own in pairs])  # one launch for all


class _RowCut:
    """Takes the maps of one row out of those of a batch."""

    def __init__(self, row: Asking, number: int, length: int, device: torch.device) -> None:
        self._row, self._number, self._length = row, number, length
        heads = [] if row.heads == tuple(range(len(row.heads))) else [np.array(row.heads, dtype=np.int64)]
        members = [] if row.words is None else [_membership([row.words], length)[0, 0]]
        # A list as an index would be copied to the device anew for every layer, and the host would wait for it.
        placed = list(place_arrays(device, *heads, *members)) if heads or members else []
        self._membership = placed.pop() if members else None
        self._heads = placed.pop() if heads else None

    def take(self, layer: int, maps: torch.Tensor) -> Iterator[tuple[int, torch.Tensor]]:
        """Yields the row and its maps of a layer, if they are requested."""
        if layer not in self._row.layers:
            return
        own = maps[self._number]
        chosen = own[: len(self._row.heads)] if self._heads is None else own.index_select(0, self._heads)
        chosen = chosen[:, : self._length, : self._length]
        yield self._number, chosen if self._membership is None else by_word(chosen, self._membership)


class _RowsCut:
    """Takes the maps of some rows, all by word or none, out of those of a batch by the places of their numbers."""

    def __init__(
        self,
        rows: Sequence[Asking],
        chosen: Sequence[int],
        lengths: Sequence[int],
        sizes: Sequence[int],
        heads: int,
        device: torch.device,
    ) -> None:
        """`chosen`: numbers of the rows."""
        self._rows = {row: rows[row] for row in chosen}
        words = [one for one in (rows[row].words for row in chosen) if one is not None]
        width = max(sizes[row] for row in chosen) if words else max(lengths)
        starts, widths = [], []
        for place, row in enumerate(chosen) if words else ((row, row) for row in chosen):
            lines = (place * heads + np.array(rows[row].heads))[:, None] * width + np.arange(sizes[row])
            starts.append(lines.ravel() * width)
            widths.append(np.full(lines.size, sizes[row]))
        start, size = np.concatenate(starts), np.concatenate(widths)
        # From one number to the next it is one place, and from one line of a map to the next as many as are left out.
        steps = np.diff(start, prepend=0)
        steps[1:] -= size[:-1] - 1
        members = [np.array(chosen), _membership(words, max(lengths))] if words else []
        begins, jumps, *placed = place_arrays(device, np.cumsum(size) - size, steps, *members)
        ones = torch.ones(int(size.sum()), dtype=torch.int64, device=device)
        self._index = ones.index_copy_(0, begins, jumps).cumsum(0).int()
        self._by_word = placed
        self._counts = [len(rows[row].heads) * sizes[row] ** 2 for row in chosen]

    def take(self, layer: int, maps: torch.Tensor) -> Iterator[tuple[int, torch.Tensor]]:
        """Yields the rows for which a layer is requested, and the numbers of their maps."""
        if not any(layer in row.layers for row in self._rows.values()):
            return
        if self._by_word:
            number, membership = self._by_word
            maps = by_word(maps.index_select(0, number), membership)
        parts = maps.reshape(-1).index_select(0, self._index).split(self._counts)
        for (row, asking), own in zip(self._rows.items(), parts, strict=True):
            if layer in asking.layers:
                yield row, own


def _membership(words: Sequence[NDArray[np.int64]], length: int) -> NDArray[np.float32]:
    """Returns which token belongs to which word, 1 or 0: [rows, 1, length, words]; padding belongs to none."""
    found = np.zeros((len(words), 1, length, max(int(of.max()) for of in words) + 1), dtype=np.float32)
    for row, of in enumerate(words):
        found[row, 0, np.arange(len(of)), of] = 1
    return found
