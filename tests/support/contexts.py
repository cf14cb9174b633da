"""Contexts of units by brute force: transformers' own modules in float64, one text at a time, and a full sort."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.sites import Site
from numpy.typing import NDArray

from tests.support.hooked import NUMBERS, Changes, Hooked
from tests.support.reference import Editing, HeadEdits
from tests.support.relations import Linked, group

Floats = NDArray[np.float64]
Place = tuple[int, int, int]
"""Number of a text, its word, and a second word; words count with special tokens."""

MASK = (1 << 64) - 1


@dataclass
class Read:
    """One text as transformers gives it: its words, those that are no special tokens, its pairs; weights between words,
    [layers, heads, words, words]; and the vectors of words, by site and layer, [words, size]."""

    words: list[list[int]]
    readable: list[int]
    pairs: list[tuple[int, int]]
    weights: Floats
    vectors: Mapping[tuple[int, int], Floats]


@torch.no_grad()
def read(
    hooked: Hooked, text: Linked, *, pieces: bool = False, edits: HeadEdits | None = None, changes: Changes | None = None
) -> Read:
    """Runs one text."""
    tokenizer = TextTokenizer.load(hooked.reference.folder, hooked.model.config.max_position_embeddings)
    marks = [] if pieces else [(segment, start, end) for start, end, segment in text.words]
    [tokenized] = tokenizer.encode_all([text.texts], words=[marks])
    tokens = tokenized.pieces(tokenizer)
    words, given = group(tokens, text.words)
    special = {number for number, token in enumerate(tokens) if token.special}
    if pieces:
        words = [[number] for number in range(len(tokens))]
    with Editing(edits or {}) as editing:
        _, vectors = hooked.run(hooked.reference.inputs([tokenized.sequence]), changes)
    joined = np.zeros((len(words), len(tokens)))
    for number, own in enumerate(words):
        joined[number, own] = 1
    means = joined / joined.sum(axis=1, keepdims=True)
    weights = [means @ maps[0].double().numpy() @ joined.T for maps in editing.maps]
    linked = {(given[first], given[second]) for _, first, second in text.pairs} if not pieces else set()
    pairs = sorted((first, second) for first, second in linked if first is not None and second is not None)
    readable = [number for number, tokens in enumerate(words) if tokens[0] not in special]
    return Read(words, readable, pairs, np.stack(weights), {place: means @ found.numpy() for place, found in vectors.items()})


@dataclass
class Expected:
    """The values of units at all of their places, [places, units]; of heads the partner at each."""

    places: list[Place] = field(default_factory=list)
    values: list[Floats] = field(default_factory=list)
    partners: list[NDArray[np.int64]] = field(default_factory=list)

    def add(self, place: Place, values: Floats, partners: NDArray[np.int64] | None = None) -> None:
        self.places.append(place)
        self.values.append(values)
        if partners is not None:
            self.partners.append(partners)


def most(texts: Mapping[int, Read], layer: int) -> Expected:
    """The largest weight of each head from a word to another one."""
    found = Expected()
    for number, text in sorted(texts.items()):
        for word in text.readable:
            others = [other for other in text.readable if other != word]
            weights = text.weights[layer][:, word]
            if not others:
                found.add((number, word, word), np.zeros(len(weights)), np.full(len(weights), word))
                continue
            found.add((number, word, word), weights[:, others].max(axis=1), np.array(others)[weights[:, others].argmax(axis=1)])
    return found


def along_pairs(texts: Mapping[int, Read], layer: int) -> Expected:
    """The weight of each head along each pair."""
    found = Expected()
    for number, text in sorted(texts.items()):
        for first, second in text.pairs:
            weights = text.weights[layer][:, first, second]
            found.add((number, first, second), weights, np.full(len(weights), second))
    return found


def at_words(texts: Mapping[int, Read], site: Site, layer: int, value: Callable[[Floats], Any]) -> Expected:
    """What a function makes of the vector of each word."""
    found = Expected()
    for number, text in sorted(texts.items()):
        vectors = text.vectors[NUMBERS[site], layer]
        for word in text.readable:
            found.add((number, word, word), np.atleast_1d(value(vectors[word])))
    return found


def key_of(seed: int, place: Place, ids: Sequence[int]) -> int:
    """SplitMix64's steps, in whole numbers."""
    found = seed
    for part in (ids[place[0]], place[1], place[2]):
        found = (found + (part + 1) * 0x9E3779B97F4A7C15) & MASK
        found = ((found ^ found >> 30) * 0xBF58476D1CE4E5B9) & MASK
        found = ((found ^ found >> 27) * 0x94D049BB133111EB) & MASK
        found ^= found >> 31
    return found
