"""Sweeps over sites and over paths by loops with plain hooks on transformers' own modules."""

import hashlib
from collections.abc import Container, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from bertscope.v1 import ablation_sites_pb2 as sites
from bertscope.v1 import site_pb2
from numpy.typing import NDArray

from tests.support.hooked import (
    ATTENTION,
    FEED_FORWARD,
    HEADS,
    KEY,
    NEURONS,
    QUERY,
    STATE,
    VALUE,
    Change,
    Hooked,
    Place,
    only,
    put,
)
from tests.support.plain import word_numbers

BREAK = sites.PATCH_DIRECTION_BREAK
HEAD_COUNT = 4
MASK = "[MASK]"

Edge = tuple[int, int, int | None, int, int, int | None]
"""A sender's site, layer and head, and a receiver's part, layer and head, by their numbers in the contract."""


class Loop:
    """The values of a request by a loop: one run of transformers for each pair, draw, place and position."""

    def __init__(self, model: Hooked, request: sites.SweepSitesRequest, base: dict[Place, Change] | None = None) -> None:
        self.model, self.request, self.base = model, request, base or {}
        self.entries = [
            model.tokenizer.convert_tokens_to_ids(model.tokenizer.tokenize(f"a {word}"))[-1] for word in ("the", "cat")
        ]
        self.runs = [self.runs_of(given) for given in request.pairs]

    def runs_of(self, given: sites.PatchedPair) -> list[tuple[Any, dict[Place, Change]]]:
        """The clean run and the corrupted ones: inputs and changes."""
        clean = self.read(given.clean.text)
        if given.HasField("corrupted"):
            return [(clean, {}), (self.read(given.corrupted.text), {})]
        if given.HasField("masked"):
            inputs = {name: ids.clone() for name, ids in clean.items()}
            inputs["input_ids"][0, self.places(given.clean.text, given.masked)] = self.model.tokenizer.mask_token_id
            return [(clean, {}), (inputs, {})]
        if not given.HasField("noise"):
            return [(clean, {})]
        return [
            (clean, {}),
            *((clean, {(STATE, 0): self.noise(given, clean, sample)}) for sample in range(given.noise.samples)),
        ]

    def noise(self, given: sites.PatchedPair, clean: Any, sample: int) -> Change:
        states = self.run((clean, {}))[1][STATE, 0]
        deviation = given.noise.deviation * float(np.std(states.numpy()))
        places = self.places(given.clean.text, given.noise.spans)
        digest = hashlib.blake2b(given.clean.text.encode(), digest_size=8).digest()
        random = np.random.default_rng((given.noise.seed, int.from_bytes(digest, "big"), sample))
        drawn = torch.from_numpy(deviation * random.standard_normal((len(places), states.shape[1]), dtype=np.float32))

        def change(x: torch.Tensor) -> torch.Tensor:
            x[places] += drawn
            return x

        return change

    def read(self, text: str) -> Any:
        return self.model.read(text.replace(MASK, self.model.tokenizer.mask_token))

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Where each token begins and ends in the text as it was written; (-1, -1) for special ones."""
        mask = self.model.tokenizer.mask_token
        longer, at = len(mask) - len(MASK), text.index(MASK)
        encoded = self.model.tokenizer(text.replace(MASK, mask), return_offsets_mapping=True)
        moved = [(start - longer * (start > at), end - longer * (end > at)) for start, end in encoded["offset_mapping"]]
        which = encoded.sequence_ids()
        return [(-1, -1) if one is None else place for one, place in zip(which, moved, strict=True)]

    def places(self, text: str, given: site_pb2.CharacterSpans) -> list[int]:
        """Tokens that begin in spans. Offsets of some tokenizers hold the blank before a word."""
        found = []
        for place, (start, end) in enumerate(self.offsets(text)):
            start += len(text[start:end]) - len(text[start:end].lstrip()) if start >= 0 else 0
            if any(one.start <= start < one.end for one in given.spans):
                found.append(place)
        return found

    def groups(self, given: sites.PatchedPair) -> dict[int | str | None, list[int]]:
        """The tokens that change together, by the number or name of what they are."""
        text = given.clean.text
        length = len(self.offsets(text))
        match self.request.positions:
            case 2:
                written = text.replace(MASK, self.model.tokenizer.mask_token)
                encoded = self.model.tokenizer(written, return_offsets_mapping=True)
                numbers = word_numbers(encoded, written)
                words = [(place if word is None else None, word) for place, word in enumerate(numbers)]
                order = list(dict.fromkeys(words))
                return {number: [place for place in range(length) if words[place] == word] for number, word in enumerate(order)}
            case 3:
                return {None: list(range(length))}
            case 4:
                return {group.name: self.places(text, group.spans) for group in given.groups}
        return {place: [place] for place in range(length)}

    def run(self, run: tuple[Any, dict[Place, Change]], more: tuple[Place, Change] | None = None) -> tuple[float, Any]:
        """The target, and the vectors of all places: the changes of all runs act first, then those of this one."""
        inputs, own = run
        in_order = [*self.base.items(), *own.items(), *([more] if more else [])]
        changes: dict[Place, Change] = {}
        for place, change in in_order:
            changes[place] = after(changes[place], change) if place in changes else change
        scores, vectors = self.model.run(inputs, changes)
        mask = self.runs_mask(inputs)
        return float(scores[mask, self.entries[0]] - scores[mask, self.entries[1]]), vectors

    def runs_mask(self, inputs: Any) -> int:
        """The first mask that is one in every run: tests mask other words after it."""
        return inputs["input_ids"][0].tolist().index(self.model.tokenizer.mask_token_id)

    def effects(self, change: Change | None = None) -> dict[Any, NDArray[np.float64]]:
        """Count, sums and sums of squares of differences and of ratios, by site, layer, unit and position. `change`: of chosen
        vectors [positions, size], in the clean run."""
        found: dict[Any, NDArray[np.float64]] = {}
        for given, runs in zip(self.request.pairs, self.runs, strict=True):
            known = [self.run(run) for run in runs]
            draws = [(0, 0)] if change else [(run, 0) for run in range(1, len(runs))]
            if self.request.direction == BREAK:
                draws = [(0, run) for run in range(1, len(runs))]
            base, other = (np.mean([known[draw[end]][0] for draw in draws]) for end in (0, 1))
            for place, unit, columns in self.wanted():
                for name, positions in self.groups(given).items():
                    values = []
                    for changed, giver in draws:
                        other_run = put(known[giver][1][place], positions, columns)
                        made = only(change, positions, columns) if change else other_run
                        values.append(self.run(runs[changed], (place, made))[0])
                    difference, span_ = np.mean(values) - base, other - base
                    ratio = difference / span_ if abs(span_) >= 0.05 else 0.0
                    numbers = [1, difference, difference**2, abs(span_) >= 0.05, ratio, ratio**2]
                    key = (*place, unit, name)
                    found[key] = found.get(key, np.zeros(6)) + numbers
        return found

    def wanted(self) -> Iterator[tuple[Place, int | None, slice]]:
        """Places, with a single unit or None, and what of a vector changes. Scopes name neighbouring units."""
        for scope in self.request.scopes:
            for layer in scope.layers or range(self.model.layers):
                size = self.run(self.runs[0][0])[1][scope.site, layer].shape[1]
                unit = {HEADS: size // HEAD_COUNT, NEURONS: 1}.get(scope.site, size)
                units = list(scope.units) or list(range(size // unit))
                if scope.each == sites.SiteScope.UNITS_EACH:
                    yield from (((scope.site, layer), one, slice(one * unit, (one + 1) * unit)) for one in units)
                else:
                    yield (scope.site, layer), None, slice(units[0] * unit, (units[-1] + 1) * unit)


def after(first: Change, second: Change) -> Change:
    return lambda x: second(first(x))


def path_values(
    loop: Loop, changed: int, giver: int, senders: Sequence[int] | None = None, receivers: Container[int] | None = None
) -> dict[Edge, float]:
    """The target of a run of the first pair with each path changed, between all layers unless some are chosen; the logits are
    read above the last. The first pass freezes all parts but the sender and shows
    what each receiver would read; in the second, one receiver reads that."""
    base, (_, other) = loop.runs[0][changed], loop.run(loop.runs[0][giver])
    _, seen = loop.run(base)
    layers, size, everywhere = loop.model.layers, seen[HEADS, 0].shape[1] // HEAD_COUNT, range(len(seen[STATE, 0]))
    found: dict[Edge, float] = {}

    def again(place: Place, vectors: torch.Tensor, columns: slice = slice(None)) -> float:
        return loop.run(base, (place, put(vectors, everywhere, columns)))[0]

    def chosen(first: int) -> Iterator[int]:
        return (number for number in range(first, layers) if receivers is None or number in receivers)

    for layer in range(layers) if senders is None else senders:
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
            if receivers is None or layers in receivers:
                found[site, layer, head, 5, layers, None] = at_logits
            for number in chosen(layer + (head is None)):
                found[site, layer, head, 4, number, None] = again((FEED_FORWARD, number), raw[FEED_FORWARD, number])
            for number in chosen(layer + 1):
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
