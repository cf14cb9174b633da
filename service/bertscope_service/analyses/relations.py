"""Attention between linked words: how large it is, and how often it is the largest of all (Kovaleva et al. 2019, section 4.2;
Clark et al. 2019, section 4), each beside what chance gives at the same distance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.aligned_words import aligned
from bertscope_service.analyses.head_sums import SumsByKind
from bertscope_service.analyses.observers.word_maps import NOWHERE, SPECIAL, Words
from bertscope_service.analyses.observers.word_pairs import PairObserver, PairScores
from bertscope_service.analyses.texts import check_finite, read_inputs
from bertscope_service.analyses.words import Span
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.base import Shape
from bertscope_service.encoders.observer import Observer
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import InvalidArgument

NumberT = TypeVar("NumberT", np.int64, np.float64)

MAX_BYTES = 256 * 1024 * 1024
"""Maximum of `RelationPlan.reply_bytes`."""

PAIR_BYTES, OFFSET_BYTES, RELATION_BYTES, DETAIL_BYTES = 10, 24, 192, 16
"""Memory for each head: of a pair and of an offset, in both directions; of a relation's sums, here and in the reply; and of a
relation of a text in the details."""


@dataclass(frozen=True, slots=True, eq=False)
class LinkedText:
    """A text or pair with its words; pairs: relation, index of the first word, index of the second one, int64 [n, 3]."""

    input: tuple[str, str | None]
    words: tuple[Span, ...]
    pairs: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RelationQuery:
    """A ScoreRelations request. Words and pairs are checked; some text has a pair, and no pair comes twice."""

    texts: tuple[LinkedText, ...]
    relations: tuple[str, ...]
    details: bool


class TextPairs:
    """The pairs of a text that are scored, sorted by relation, then by offset; a group has the same of both.

    index: of the text in the request. skipped: relation of each pair that is not scored. relation, offset: of each pair, int64
    [n]. relations: those with a pair, ascending, and `relation_starts`: the first pair of each. offsets: all different ones,
    ascending. group_*: of each group its first pair, relation, offset (as an index in `offsets`), number of pairs, and number
    of other pairs of words at that offset.
    """

    def __init__(self, index: int, words: Words, pairs: NDArray[np.int64]) -> None:
        self.index = index
        places = np.array(words.places, dtype=np.int64)[pairs[:, 1:]]
        scored = (places != NOWHERE).all(axis=1)
        self.skipped = pairs[~scored, 0]
        relation, places = pairs[scored, 0], places[scored]
        order = np.lexsort((places[:, 1] - places[:, 0], relation))
        self.relation, places = relation[order], places[order]
        self.offset = places[:, 1] - places[:, 0]
        self.relations, self.relation_starts = np.unique(self.relation, return_index=True)
        new = np.ones(len(self.offset), dtype=np.bool_)
        new[1:] = (np.diff(self.relation) != 0) | (np.diff(self.offset) != 0)
        self.group_starts = np.flatnonzero(new)
        self.offsets, inverse = np.unique(self.offset, return_inverse=True)
        self.group_relation, self.group_offset = self.relation[self.group_starts], inverse[self.group_starts]
        self.group_pairs = np.diff(self.group_starts, append=len(self.offset))
        at_offset = np.array([_count(words.segments, offset) for offset in self.offsets.tolist()], dtype=np.int64)
        self.group_others = at_offset[self.group_offset] - self.group_pairs
        both = np.concatenate([places, places[:, ::-1]])
        self.observer = PairObserver(words, both, np.concatenate([self.offsets, -self.offsets]))

    def __len__(self) -> int:
        return len(self.relation)

    def of_relations(self) -> Iterator[tuple[int, slice]]:
        """Yields each relation with a pair, and its pairs."""
        ends = [*self.relation_starts.tolist(), len(self)][1:]
        for relation, start, end in zip(self.relations.tolist(), self.relation_starts.tolist(), ends, strict=True):
            yield relation, slice(start, end)


def _count(segments: NDArray[np.int64], offset: int) -> int:
    """Counts the pairs of words (i, i + offset) of the same text of a pair."""
    first, second = segments[: len(segments) - abs(offset)], segments[abs(offset) :]
    return int(np.count_nonzero((first == second) & (first != SPECIAL)))


class DirectionSums:
    """The scores of all relations in one direction; see bertscope.v1.DirectedScores. Arrays are [relations, layers, heads]."""

    def __init__(self, relations: int, shape: Shape) -> None:
        size = (relations, shape.layers, shape.heads)
        self.largest, self.largest_by_chance = SumsByKind.zeros(size), SumsByKind.zeros(size)
        self.correct = np.zeros(size, dtype=np.int64)
        self.correct_by_chance = np.zeros(size, dtype=np.float64)

    def add(self, text: TextPairs, scores: PairScores) -> NDArray[np.int64]:
        """Adds a text with a pair. Returns the pairs that are hit of each of its relations, [text.relations, layers, heads]."""
        weights, hits = scores.weights.astype(np.float64), scores.hits.astype(np.int64)
        correct = _by(np.add, hits, text.relation_starts)
        self.largest.add(text.relations, _by(np.maximum, weights, text.relation_starts))
        self.correct[text.relations] += correct
        compared = np.flatnonzero(text.group_others > 0)
        if len(compared):
            others, offsets = text.group_others[compared][:, None], text.group_offset[compared]
            linked = np.add.reduceat(weights, text.group_starts, axis=1)[:, compared]
            mean = np.maximum(scores.offset_weights[:, offsets] - linked, 0) / others
            linked_hits = np.add.reduceat(hits, text.group_starts, axis=1)[:, compared]
            expected = (scores.offset_hits[:, offsets] - linked_hits) * (text.group_pairs[compared][:, None] / others)
            relations, starts = np.unique(text.group_relation[compared], return_index=True)
            self.largest_by_chance.add(relations, _by(np.maximum, mean, starts))
            self.correct_by_chance[relations] += _by(np.add, expected, starts)
        return correct


def _by(ufunc: np.ufunc, values: NDArray[NumberT], starts: NDArray[np.int64]) -> NDArray[NumberT]:
    """Reduces [layers, n, heads] over runs of n that begin at `starts`: [runs, layers, heads]."""
    return np.moveaxis(ufunc.reduceat(values, starts, axis=1), 1, 0)


@dataclass(frozen=True, slots=True, eq=False)
class RelationDetail:
    """The number of pairs of a relation that are hit in a text, either way, int64 [layers, heads], and the offset of each."""

    text: int
    relation: int
    offsets: NDArray[np.int64]
    forward: NDArray[np.int64]
    backward: NDArray[np.int64]


@dataclass(slots=True, eq=False)
class RelationSums:
    """The scores of all relations, and those of each text if they are requested."""

    forward: DirectionSums
    backward: DirectionSums
    details: list[RelationDetail] = field(default_factory=list)


class RelationPlan:
    """The plan to score relations: the pairs of each text that has some, a row for each, and the numbers that need no model.

    pairs, skipped, chance_pairs: of each relation, int64 [relations]; offsets: of each relation, its pairs by offset. Raises
    InvalidArgument for a text that is too long or holds no token, and for a reply that is too large.
    """

    def __init__(self, query: RelationQuery, tokenizer: TextTokenizer, shape: Shape) -> None:
        self.query, self.shape = query, shape
        self.texts: list[TextPairs] = []
        self.rows: list[tuple[TokenSequence, Observer]] = []
        count = len(query.relations)
        self.pairs, self.skipped, self.chance_pairs = (np.zeros(count, dtype=np.int64) for _ in range(3))
        self.offsets = [Counter[int]() for _ in query.relations]
        inputs = [text.input for text in query.texts]
        marked = [text.words for text in query.texts]
        read = read_inputs(tokenizer, inputs, "texts", ".input", truncate=None, words=marked)
        found = ((text, own) for texts, words in aligned(read, marked) for text, own in zip(texts, words.each(), strict=True))
        for index, (tokenized, words) in enumerate(found):
            pairs = query.texts[index].pairs
            if len(pairs):
                self._add(TextPairs(index, words, pairs), tokenized.sequence)
        self._check_size()

    def _add(self, text: TextPairs, sequence: TokenSequence) -> None:
        self.texts.append(text)
        self.rows.append((sequence, text.observer))
        np.add.at(self.pairs, text.relation, 1)
        np.add.at(self.skipped, text.skipped, 1)
        np.add.at(self.chance_pairs, text.group_relation, np.where(text.group_others > 0, text.group_pairs, 0))
        for relation, part in text.of_relations():
            self.offsets[relation].update(text.offset[part].tolist())

    @property
    def reply_bytes(self) -> int:
        """Size of the reply, and of what the device sends for it."""
        read = sum(PAIR_BYTES * len(text) + OFFSET_BYTES * len(text.offsets) for text in self.texts)
        details = sum(len(text.relations) for text in self.texts) if self.query.details else 0
        total = read + DETAIL_BYTES * details + RELATION_BYTES * len(self.query.relations)
        return total * self.shape.layers * self.shape.heads

    def _check_size(self) -> None:
        if self.reply_bytes > MAX_BYTES:
            message = (
                f"texts have so many pairs and relations that their scores take {self.reply_bytes} bytes, and this server "
                f"takes {MAX_BYTES}; send them in parts, or leave details out"
            )
            raise InvalidArgument("texts", message, "REPLY_TOO_LARGE", limit=MAX_BYTES)

    def answer(self, results: Sequence[PairScores]) -> RelationSums:
        """Sums up the scores of all rows. Raises FailedPrecondition if one is not finite."""
        count = len(self.query.relations)
        sums = RelationSums(DirectionSums(count, self.shape), DirectionSums(count, self.shape))
        for text, scores in zip(self.texts, results, strict=True):
            if not len(text):
                continue
            check_finite([scores.weights, scores.offset_weights])
            forward = sums.forward.add(text, _half(scores, slice(None, len(text)), slice(None, len(text.offsets))))
            backward = sums.backward.add(text, _half(scores, slice(len(text), None), slice(len(text.offsets), None)))
            if self.query.details:
                found = zip(text.of_relations(), forward, backward, strict=True)
                sums.details += [
                    RelationDetail(text.index, relation, text.offset[part], there, back)
                    for (relation, part), there, back in found
                ]
        return sums


def _half(scores: PairScores, pairs: slice, offsets: slice) -> PairScores:
    """Returns one direction of the scores of a text."""
    return PairScores(
        scores.weights[:, pairs],
        scores.hits[:, pairs],
        scores.offset_weights[:, offsets],
        scores.offset_hits[:, offsets],
    )
