"""Sweeps over paths by two passes of transformers with plain hooks on its own modules for each."""

from __future__ import annotations

import torch

from tests.support.hooked import ATTENTION, FEED_FORWARD, HEADS, KEY, QUERY, STATE, VALUE, Change, Place, put
from tests.support.site_loop import HEAD_COUNT, Loop

Edge = tuple[int, int, int | None, int, int, int | None]
"""A sender's site, layer and head, and a receiver's part, layer and head, by their numbers in the contract."""


def path_values(loop: Loop, changed: int, giver: int) -> dict[Edge, float]:
    """The target of a run of the first pair with each path changed. The first pass freezes all parts but the sender and shows
    what each receiver would read; in the second, one receiver reads that."""
    base, (_, other) = loop.runs[0][changed], loop.run(loop.runs[0][giver])
    _, seen = loop.run(base)
    layers, size, everywhere = loop.model.layers, seen[HEADS, 0].shape[1] // HEAD_COUNT, range(len(seen[STATE, 0]))
    found: dict[Edge, float] = {}

    def again(place: Place, vectors: torch.Tensor, columns: slice = slice(None)) -> float:
        return loop.run(base, (place, put(vectors, everywhere, columns)))[0]

    for layer in range(layers):
        for head in (*range(HEAD_COUNT), None):
            site = FEED_FORWARD if head is None else HEADS
            parts = {(kind, number) for kind in (ATTENTION, FEED_FORWARD) for number in range(layers)}
            parts -= {(FEED_FORWARD if head is None else ATTENTION, layer)}
            raw: dict[Place, torch.Tensor] = {}
            frozen: dict[Place, Change] = {place: _frozen(place, seen, raw) for place in parts}
            sent = seen[site, layer].clone()
            columns = slice(None) if head is None else slice(head * size, (head + 1) * size)
            sent[:, columns] = other[site, layer][:, columns]
            frozen[site, layer] = put(sent, everywhere)
            at_logits, read = loop.run((base[0], base[1] | frozen))
            found[site, layer, head, 5, layers, None] = at_logits
            for number in range(layer + (head is None), layers):
                found[site, layer, head, 4, number, None] = again((FEED_FORWARD, number), raw[FEED_FORWARD, number])
            for number in range(layer + 1, layers):
                for part, name in enumerate((QUERY, KEY, VALUE), 1):
                    for one in range(HEAD_COUNT):
                        place, of_head = (name, number), slice(one * size, (one + 1) * size)
                        found[site, layer, head, part, number, one] = again(place, read[place], of_head)
    return found


def _frozen(place: Place, seen: dict[Place, torch.Tensor], raw: dict[Place, torch.Tensor]) -> Change:
    """What a part gave before, in place of what it gives now, which is kept in `raw`."""

    def change(x: torch.Tensor) -> torch.Tensor:
        raw[place] = x.clone()
        return seen[place].clone()

    return change
