"""Plans of structural probes: the trees of texts, and which pieces make up their words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.observers.pooling import Pooling
from bertscope_service.analyses.observers.span_states import SpanStatesObserver
from bertscope_service.analyses.probes import TRUNCATED, Overlap, SpanPlaces, row_units, split_off
from bertscope_service.analyses.texts import read_named_inputs
from bertscope_service.analyses.words import Span
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import InvalidArgument

MIN_WORDS = 2
"""Words with a state that a text needs to have a distance."""


@dataclass(frozen=True, slots=True, eq=False)
class TreeText:
    """A text of a part: its field, its text or pair, its tree, and the words with a place.

    heads: int64 [words of the tree], the index of each word's head, its own of the root. spans: places of the words `nodes`,
    int64 indices of the tree's words; punctuation: bool, whether each is. All three are as long.
    """

    field: str
    input: tuple[str, str | None]
    heads: NDArray[np.int64]
    spans: Sequence[Span]
    nodes: NDArray[np.int64]
    punctuation: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """A text's tree. heads: int64, the index of each word's head, its own of the root. nodes: int64 [n], the words that have a
    state; punctuation: bool [n]. begin: row of the first one's state."""

    heads: NDArray[np.int64]
    nodes: NDArray[np.int64]
    punctuation: NDArray[np.bool_]
    begin: int

    def __len__(self) -> int:
        """Returns the number of words with a state."""
        return len(self.nodes)

    @property
    def edges(self) -> NDArray[np.int64]:
        """The edges between words with a state that are no punctuation, [edges, 2], indices of `nodes`."""
        place = np.full(len(self.heads), -1)
        place[self.nodes[~self.punctuation]] = np.flatnonzero(~self.punctuation)
        ends = np.stack([place, place[self.heads]], axis=1)
        found: NDArray[np.int64] = ends[(ends >= 0).all(axis=1) & (ends[:, 0] != ends[:, 1])]
        return found

    @property
    def root(self) -> int | None:
        """The root's index in `nodes`; None if it has no state or is punctuation."""
        found = np.flatnonzero((self.heads[self.nodes] == self.nodes) & ~self.punctuation)
        return int(found[0]) if len(found) else None


@dataclass(frozen=True, slots=True)
class TreeQuery:
    """The texts of a TrainStructuralProbe request. `layers` ascend."""

    train: Sequence[TreeText]
    dev: Sequence[TreeText]
    test: Sequence[TreeText]
    layers: tuple[int, ...]
    pooling: Pooling
    truncate: bool
    seed: int


@dataclass(slots=True, eq=False)
class TreePart:
    """The trees of one part of the texts, those of fewer than two words with a state left out, and the row of each.

    truncated, empty: words that were left out, because they were cut away and because no piece begins in them.
    """

    texts: int = 0
    rows: list[tuple[TokenSequence, SpanStatesObserver]] = field(default_factory=list)
    trees: list[Tree] = field(default_factory=list)
    truncated: int = 0
    empty: int = 0

    @property
    def words(self) -> int:
        """The words with a state."""
        return sum(map(len, self.trees))


class TreePlan:
    """The parts to train on, to end training by, and to test on.

    Raises InvalidArgument for a text that is too long or holds no token, for a part without a text of two words that have
    pieces of their own, and for words that overlap too much.
    """

    def __init__(self, query: TreeQuery, tokenizer: TextTokenizer) -> None:
        self.query = query
        train, dev = query.train, query.dev
        if not dev:
            train, dev = split_off(train, query.seed)
        self.words = 0
        self._overlap = Overlap()
        self.train, self.dev, self.test = (self._read(part, tokenizer) for part in (train, dev, query.test))
        for name, part in (("train", self.train), ("dev", self.dev), ("test", self.test)):
            if not part.trees and (part.texts or name != "test"):
                message = f"{name} has no text of two words with a head and pieces of their own; give at least one"
                raise InvalidArgument(name, message, "NO_SPAN")

    @property
    def parts(self) -> tuple[TreePart, TreePart, TreePart]:
        return self.train, self.dev, self.test

    def _read(self, texts: Sequence[TreeText], tokenizer: TextTokenizer) -> TreePart:
        part = TreePart(len(texts))
        inputs, fields = [text.input for text in texts], (text.field for text in texts)
        read = read_named_inputs(tokenizer, inputs, fields, truncate=self.query.truncate, words=[text.spans for text in texts])
        for text, tokenized in zip(texts, read, strict=True):
            places = SpanPlaces(tokenized, tokenizer)
            found = [places.of(span) for span in text.spans]
            used = [index for index, place in enumerate(found) if isinstance(place, range)]
            cut = found.count(TRUNCATED)
            part.truncated += cut
            part.empty += len(found) - len(used) - cut
            if len(used) < MIN_WORDS:
                continue
            parts = [spans for _, spans in row_units([found], used, self.query.pooling, len(tokenized))]
            self._overlap.add(f"{text.field.removesuffix('input')}words", tokenized.sequence, parts)
            part.rows += [(tokenized.sequence, SpanStatesObserver(self.query.layers, spans)) for spans in parts]
            part.trees.append(Tree(text.heads, text.nodes[used], text.punctuation[used], self.words))
            self.words += len(used)
        return part
