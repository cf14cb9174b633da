"""Places changes of sites on a device, and applies them to the vectors of a batch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.encoders.code_edits import PlacedCodes, place_codes
from bertscope_service.encoders.sites import INNER, Change, Place, Site
from bertscope_service.encoders.transfers import place_arrays

Watcher = Callable[[torch.Tensor], None]
"""Receives the vectors of a site, [rows, length, units, unit_size]; only valid during the call."""


class SiteChange(Protocol):
    """A change of the vectors at a place, in some rows of a batch."""

    def apply(self, vectors: torch.Tensor) -> torch.Tensor:
        """Returns changed vectors, [rows, length, units, unit_size]; all others are the same to the bit."""

    def part(self, rows: slice) -> SiteChange | None:
        """Returns the change of some rows of the batch, which then are numbered from 0; None if it has none of them."""


@dataclass(frozen=True, slots=True, eq=False)
class PlacedChange:
    """One change of each of some rows at the same place: n vectors, each at a row and a position, or of one unit there.

    rows, positions, units: int64 [n]; units is None for whole vectors. host_rows: the rows, on the host. keep: float32 [n, 1].
    add: float32 [n, size], None if nothing is added. left, right: [size, rank] and [rank, size], None without a projection.
    codes: sparse codes whose sum is added.
    """

    rows: torch.Tensor
    positions: torch.Tensor
    units: torch.Tensor | None
    host_rows: NDArray[np.int64]
    keep: torch.Tensor
    add: torch.Tensor | None
    left: torch.Tensor | None
    right: torch.Tensor | None
    codes: PlacedCodes | None = None

    def apply(self, vectors: torch.Tensor) -> torch.Tensor:
        """Returns changed vectors, [rows, length, units, unit_size]; all others are the same to the bit."""
        where = (self.rows, self.positions) if self.units is None else (self.rows, self.positions, self.units)
        before = vectors[where]
        x = before.float().flatten(1)
        after = x * self.keep
        if self.add is not None:
            after = after + self.add
        if self.left is not None and self.right is not None:
            after = after - (x @ self.right.T) @ self.left.T
        if self.codes is not None:
            after = after + self.codes.total(x)
        return vectors.index_put(where, after.to(vectors.dtype).view(before.shape))

    def part(self, rows: slice) -> PlacedChange | None:
        """Returns the change of some rows of the batch, which then are numbered from 0; None if it has none of them."""
        inside = np.flatnonzero((self.host_rows >= rows.start) & (self.host_rows < rows.stop))
        if not len(inside):
            return None
        host_rows = self.host_rows[inside] - rows.start
        chosen, numbers = place_arrays(self.rows.device, inside, host_rows)
        units, add = (None if values is None else values[chosen] for values in (self.units, self.add))
        left, right = (None if values is None else values.clone() for values in (self.left, self.right))
        codes = None if self.codes is None else self.codes.clone()
        return PlacedChange(numbers, self.positions[chosen], units, host_rows, self.keep[chosen], add, left, right, codes)


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Attention weights that are 0, in m rows. numbers: these among the rows of a `BlockedAttention`, int64 [m], also on the
    host. heads, queries, keys: which are meant, bool [m, heads], [m, q], [m, k]."""

    numbers: torch.Tensor
    host_numbers: NDArray[np.int64]
    heads: torch.Tensor
    queries: torch.Tensor
    keys: torch.Tensor

    def mask(self, heads: torch.Tensor | None, length: int) -> torch.Tensor:
        """Returns the weights that are meant, bool [m, heads, length, length]; of some `heads` alone, int64, if given."""
        of = self.heads if heads is None else self.heads.index_select(1, heads)
        queries, keys = (torch.nn.functional.pad(one, (0, length - one.shape[1])) for one in (self.queries, self.keys))
        return of[:, :, None, None] & queries[:, None, :, None] & keys[:, None, None, :]


@dataclass(frozen=True, slots=True, eq=False)
class BlockedAttention:
    """Attention weights of one layer that are 0, in n rows, int64 [n], ascending, also on the host: those of all `blocks`."""

    rows: torch.Tensor
    host_rows: NDArray[np.int64]
    blocks: Sequence[Block]

    def allowed(self, heads: torch.Tensor | None, length: int) -> torch.Tensor:
        """Returns the weights that stay, bool [n, heads, length, length]; of the remaining `heads` alone, int64, if given."""
        count = self.blocks[0].heads.shape[1] if heads is None else len(heads)
        found = torch.ones((len(self.rows), count, length, length), dtype=torch.bool, device=self.rows.device)
        for block in self.blocks:
            found = found.index_put((block.numbers,), found[block.numbers] & ~block.mask(heads, length))
        return found

    def part(self, rows: slice) -> BlockedAttention | None:
        """Returns what is blocked in some rows of the batch, which then are numbered from 0; None if nothing is."""
        inside = np.flatnonzero((self.host_rows >= rows.start) & (self.host_rows < rows.stop))
        if not len(inside):
            return None
        places = np.full(len(self.host_rows), -1)
        places[inside] = np.arange(len(inside))
        blocks, host_rows = [], self.host_rows[inside] - rows.start
        for block in self.blocks:
            chosen = np.flatnonzero(places[block.host_numbers] >= 0)
            numbers = places[block.host_numbers[chosen]]
            if len(chosen):
                index, on_device = place_arrays(self.rows.device, chosen, numbers)
                blocks.append(Block(on_device, numbers, block.heads[index], block.queries[index], block.keys[index]))
        (placed,) = place_arrays(self.rows.device, host_rows)
        return BlockedAttention(placed, host_rows, blocks)


@dataclass(frozen=True, slots=True, eq=False)
class SiteEdits:
    """The changes at the sites of a batch, and who sees the vectors there. `entering` change kept states, whatever their layer.

    `untouched` holds the states before layer 0 as they were, from when changes have acted on them.
    """

    placed: Mapping[Place, Sequence[SiteChange]] = field(default_factory=dict)
    blocked: Mapping[int, BlockedAttention] = field(default_factory=dict)
    entering: Sequence[PlacedChange] = ()
    watchers: Mapping[Place, Watcher] = field(default_factory=dict)
    untouched: list[torch.Tensor] = field(default_factory=list)

    @property
    def places(self) -> frozenset[Place]:
        """The places with a change or a watcher."""
        return frozenset((*self.placed, *self.watchers, *((Site.ATTENTION, layer) for layer in self.blocked)))

    def touch(self, layer: int) -> bool:
        """Returns whether anything changes, or is seen, inside a layer or at the state behind it."""
        return any(of == (layer + 1 if site is Site.STATE else layer) for site, of in self.places)

    def inside(self, layer: int) -> bool:
        """Returns whether anything changes, or is seen, at inner sites of a layer."""
        return any(of == layer and site in INNER for site, of in self.places)

    def apply(self, place: Place, vectors: torch.Tensor) -> torch.Tensor:
        """Returns the vectors of a place, [rows, length, units, unit_size], after its changes; its watcher sees them."""
        for change in self.placed.get(place, ()):
            vectors = change.apply(vectors)
        watcher = self.watchers.get(place)
        if watcher is not None:
            watcher(vectors)
        return vectors

    def apply_to_states(self, layer: int, hidden: torch.Tensor) -> torch.Tensor:
        """Returns hidden states before a layer, [rows, length, hidden_size], likewise; the same tensor if nothing is there."""
        place = (Site.STATE, layer)
        return self.apply(place, hidden[:, :, None])[:, :, 0] if place in self.places else hidden

    def part(self, rows: slice) -> SiteEdits:
        """Returns the changes of some rows of the batch, which then are numbered from 0."""
        placed = {place: tuple(filter(None, (one.part(rows) for one in each))) for place, each in self.placed.items()}
        blocked = {layer: part for layer, one in self.blocked.items() if (part := one.part(rows)) is not None}
        entering = tuple(filter(None, (one.part(rows) for one in self.entering)))
        return SiteEdits(placed, blocked, entering, self.watchers)


def place_sites(
    changes: Sequence[Sequence[Change]], entering: Sequence[Sequence[Change]], heads: int, device: torch.device
) -> SiteEdits | None:
    """Returns the changes of the rows of a batch, and those of their kept states, on the device; None if no row has any. Their
    positions are found already."""
    if not any(changes) and not any(entering):
        return None
    by_place: defaultdict[Place, list[tuple[int, int, Change]]] = defaultdict(list)
    for row, of_row in enumerate(changes):
        counts: defaultdict[Place, int] = defaultdict(int)
        for change in of_row:
            place = change.site, change.layer
            by_place[place].append((row, counts[place], change))
            counts[place] += 1
    blocked = {layer: _block(found, heads, device) for (site, layer), found in by_place.items() if site is Site.ATTENTION}
    placed = {place: _place(found, device) for place, found in by_place.items() if place[0] is not Site.ATTENTION}
    states = [(row, number, change) for row, of_row in enumerate(entering) for number, change in enumerate(of_row)]
    return SiteEdits(placed, blocked, _place(states, device))


def _place(changes: Iterable[tuple[int, int, Change]], device: torch.device) -> list[PlacedChange]:
    """Places changes at one place, in the order of their numbers; those of one number and form together."""
    groups: dict[tuple[int, bool, int, int], list[tuple[int, Change]]] = {}
    for row, number, change in changes:
        form = number, change.units is None, id(change.left), id(change.codes)
        groups.setdefault(form, []).append((row, change))
    return [_together(groups[key], device) for key in sorted(groups, key=lambda key: key[0])]


def _together(changes: Sequence[tuple[int, Change]], device: torch.device) -> PlacedChange:
    """Places changes of one form, each of another row."""
    rows, positions, units, keep = list[Any](), list[Any](), list[Any](), list[Any]()
    sizes = {one.add.shape[-1] // _count(one) for _, one in changes if one.add is not None}
    added = np.zeros((sum(_length(one) for _, one in changes), *sizes), dtype=np.float32) if sizes else None
    done = 0
    for row, change in changes:
        places, count, length = _positions(change), _count(change), _length(change)
        rows.append(np.full(length, row, dtype=np.int64))
        positions.append(np.repeat(places, count))
        if change.units is not None:
            units.append(np.tile(change.units, len(places)))
        keep.append(np.full((length, 1), change.keep, dtype=np.float32))
        if added is not None and change.add is not None and length:
            vectors = np.broadcast_to(change.add, (len(places), change.add.shape[-1]))
            added[done : done + length] = vectors.reshape(length, -1)
        done += length
    first = changes[0][1]
    optional = (np.concatenate(units) if units else None, added, first.left, first.right)
    host_rows = np.concatenate(rows)
    arrays = [host_rows, np.concatenate(positions), np.concatenate(keep), *(one for one in optional if one is not None)]
    on_device = iter(place_arrays(device, *arrays))
    of_rows, of_positions, kept = next(on_device), next(on_device), next(on_device)
    of_units, add, left, right = (None if one is None else next(on_device) for one in optional)
    codes = None if first.codes is None else place_codes(first.codes, device)
    return PlacedChange(of_rows, of_positions, of_units, host_rows, kept, add, left, right, codes)


def _block(changes: Sequence[tuple[int, int, Change]], heads: int, device: torch.device) -> BlockedAttention:
    """Places blocked attention of one layer."""
    rows = sorted({row for row, _, _ in changes})
    rounds: defaultdict[int, list[tuple[int, Change]]] = defaultdict(list)
    for row, number, change in changes:
        rounds[number].append((rows.index(row), change))
    host_rows, blocks = np.array(rows, dtype=np.int64), []
    for number in sorted(rounds):
        of = rounds[number]
        numbers = np.array([index for index, _ in of], dtype=np.int64)
        units = [np.arange(heads) if change.units is None else change.units for _, change in of]
        queries, keys = [_positions(change) for _, change in of], [change.keys for _, change in of]
        placed, *masks = place_arrays(device, numbers, _marked(units, heads), _marked(queries), _marked(keys))
        blocks.append(Block(placed, numbers, *masks))
    (on_device,) = place_arrays(device, host_rows)
    return BlockedAttention(on_device, host_rows, blocks)


def _marked(numbers: Sequence[Any], size: int | None = None) -> NDArray[np.bool_]:
    """Returns a mask of each list of numbers, bool [lists, size], or as long as the largest number needs."""
    longest = size if size is not None else 1 + max((int(each.max(initial=0)) for each in numbers), default=0)
    marked = np.zeros((len(numbers), longest), dtype=np.bool_)
    for row, each in enumerate(numbers):
        marked[row, each] = True
    return marked


def _positions(change: Change) -> NDArray[np.int64]:
    if not isinstance(change.positions, np.ndarray):
        raise TypeError("a change whose positions were not found")
    return change.positions


def _count(change: Change) -> int:
    """Returns the number of a change's units, 1 if it changes whole vectors."""
    return 1 if change.units is None else len(change.units)


def _length(change: Change) -> int:
    """Returns the number of vectors that a change changes."""
    return len(_positions(change)) * _count(change)
