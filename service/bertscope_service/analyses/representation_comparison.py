"""Compares the states of layers, of one model or of two that read the same words: sums of HSIC, which add up over calls.

Linear CKA (Kornblith et al. 2019, section 3) is HSIC(X, Y) / sqrt(HSIC(X, X) HSIC(Y, Y)). The sums are of the unbiased
estimator HSIC_1 (Song et al. 2012, equation 5) over small sets of vectors, as in minibatch CKA (Nguyen, Raghu and Kornblith
2021, section 2.2). A set is the words of one text, so that it never depends on how texts are divided among calls and batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.observers.pooling import Pooling, Units
from bertscope_service.analyses.observers.word_products import WordProductsObserver
from bertscope_service.analyses.texts import check_finite, read_inputs
from bertscope_service.analyses.words import positions_of, words_of
from bertscope_service.checkpoints.tokenized_text import TokenizedText
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.sequences import TokenSequence

FEWEST = 4
"""HSIC_1 needs so many vectors."""

KEPT_BYTES = 32 * 1024 * 1024
"""Maximum size of the inner products that wait to be summed; those of one text may take more."""

NUMBER_BYTES = 8

Products = NDArray[np.float32]
"""[layers, words, words]: inner products of the centred vectors of one text's words."""


@dataclass(frozen=True, slots=True)
class RepresentationQuery:
    """A CompareRepresentations request; the layers are in the requested order, never empty. `twice`: the second model, which
    may be the first one again, runs by itself."""

    inputs: tuple[tuple[str, str | None], ...]
    layers: tuple[int, ...]
    other_layers: tuple[int, ...]
    twice: bool
    truncate: bool


@dataclass(frozen=True, slots=True, eq=False)
class SimilaritySums:
    """Sums over texts of HSIC_1, float64. shared: between each two layers, [layers, other layers]. own, other: of each layer
    with itself, [layers] and [other layers]."""

    shared: NDArray[np.float64]
    own: NDArray[np.float64]
    other: NDArray[np.float64]

    @classmethod
    def zeros(cls, layers: int, others: int) -> Self:
        """Returns the sums over no text."""
        return cls(np.zeros((layers, others)), np.zeros(layers), np.zeros(others))

    def __add__(self, added: SimilaritySums) -> SimilaritySums:
        return SimilaritySums(self.shared + added.shared, self.own + added.own, self.other + added.other)


@dataclass(frozen=True, slots=True)
class Extent:
    """A word's first and last character in a text of a pair, and the positions of its pieces."""

    segment: int
    start: int
    end: int
    places: tuple[int, ...]


class RepresentationPlan:
    """The groups of texts for a query, and the conversion of their inner products to sums.

    Texts of fewer than FEWEST words run, too, but are not compared. Raises InvalidArgument for a text that is too long or holds
    no token.
    """

    def __init__(self, query: RepresentationQuery, first: TextTokenizer, second: TextTokenizer) -> None:
        self.query = query
        self.texts = list(read_inputs(first, query.inputs, "inputs", truncate=query.truncate))
        self.others = self.texts
        if second is not first:
            self.others = list(read_inputs(second, query.inputs, "inputs", truncate=query.truncate))
        self.words = [_units(text, first, other, second) for text, other in zip(self.texts, self.others, strict=True)]
        used = set(query.layers) if query.twice else {*query.layers, *query.other_layers}
        self._ascending = tuple(sorted(used))
        self._others_ascending = tuple(sorted(set(query.other_layers))) if query.twice else self._ascending
        self.groups = tuple(self._groups())

    @property
    def rows(self) -> list[tuple[TokenSequence, WordProductsObserver]]:
        """The sequence and observer of each text that is compared, for the first model."""
        return [row for group in self.groups for row in self.first(group)]

    def first(self, group: Sequence[int]) -> list[tuple[TokenSequence, WordProductsObserver]]:
        """Returns the rows of the first model for a group of texts."""
        return [(self.texts[one].sequence, WordProductsObserver(self._ascending, self.words[one][0])) for one in group]

    def second(self, group: Sequence[int]) -> list[tuple[TokenSequence, WordProductsObserver]]:
        """Returns those of the second model."""
        return [(self.others[one].sequence, WordProductsObserver(self._others_ascending, self.words[one][1])) for one in group]

    @property
    def compared(self) -> list[int]:
        """The texts of FEWEST words or more, by number."""
        return [index for index, (own, _) in enumerate(self.words) if own.count >= FEWEST]

    @property
    def compared_words(self) -> int:
        """The words of the texts that are compared."""
        return sum(self.words[index][0].count for index in self.compared)

    @property
    def tokens(self) -> int:
        """The tokens of all texts as the first model reads them, special ones included."""
        return sum(map(len, self.texts))

    @property
    def truncated_texts(self) -> int:
        """The texts that were cut for either model."""
        return sum(text.truncated + other.truncated > 0 for text, other in zip(self.texts, self.others, strict=True))

    @property
    def reply_bytes(self) -> int:
        """Approximate size of the reply, and of the inner products that wait at a time, bytes."""
        waiting = max((sum(map(self._product_bytes, group)) for group in self.groups), default=0)
        return 2 * waiting + NUMBER_BYTES * (len(self.query.layers) + 1) * (len(self.query.other_layers) + 1)

    def sums(self, products: Sequence[Products], others: Sequence[Products]) -> SimilaritySums:
        """Returns the sums over some texts, from the inner products of each in the first model and in the second; these are the
        same if it does not run by itself. Raises FailedPrecondition for states that are not finite."""
        check_finite([*products, *others], "hidden states", "STATES_NOT_FINITE")
        own = [self._ascending.index(layer) for layer in self.query.layers]
        other = [self._others_ascending.index(layer) for layer in self.query.other_layers]
        total = SimilaritySums.zeros(len(own), len(other))
        for one, another in zip(products, others, strict=True):
            left, right = _off_diagonal(one[own]), _off_diagonal(another[other])
            total += SimilaritySums(hsic(left, right), *(_with_itself(sides) for sides in (left, right)))
        return total

    def _product_bytes(self, text: int) -> int:
        """Returns the size of the inner products of a text in both models."""
        layers = len(self._ascending) + (len(self._others_ascending) if self.query.twice else 0)
        return 4 * layers * self.words[text][0].count ** 2

    def _groups(self) -> Iterator[list[int]]:
        """Yields consecutive texts whose inner products fit into KEPT_BYTES together."""
        group, waiting = list[int](), 0
        for text in self.compared:
            size = self._product_bytes(text)
            if group and waiting + size > KEPT_BYTES:
                yield group
                group, waiting = [], 0
            group.append(text)
            waiting += size
        if group:
            yield group


def hsic(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns HSIC_1 between each two of the inner products, [layers, other layers] (Song et al. 2012, equation 5).

    left: [layers, n, n], right: [other layers, n, n], both with zeros on their diagonals; n is 4 or more."""
    count = left.shape[1]
    rows, columns = left.sum(axis=2), right.sum(axis=2)
    traces = left.reshape(len(left), -1) @ right.reshape(len(right), -1).T
    whole = np.outer(rows.sum(axis=1), columns.sum(axis=1)) / ((count - 1) * (count - 2))
    found: NDArray[np.float64] = (traces + whole - 2 / (count - 2) * (rows @ columns.T)) / (count * (count - 3))
    return found


def _with_itself(products: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.array([hsic(one, one)[0, 0] for one in products[:, None]])


def _off_diagonal(products: Products) -> NDArray[np.float64]:
    found = products.astype(np.float64)
    found[:, np.arange(found.shape[1]), np.arange(found.shape[1])] = 0
    return found


def _units(text: TokenizedText, tokenizer: TextTokenizer, other: TokenizedText, others: TextTokenizer) -> tuple[Units, Units]:
    """Returns the words of a text as each of two models joins its pieces: as many for both, and in the same order."""
    own = _extents(text, tokenizer)
    if other is text:
        units = Units.made([word.places for word in own], Pooling.MEAN)
        return units, units
    shared = list(common_words(own, _extents(other, others)))
    first, second = ([word[side] for word in shared] for side in (0, 1))
    return Units.made(first, Pooling.MEAN), Units.made(second, Pooling.MEAN)


def _extents(text: TokenizedText, tokenizer: TextTokenizer) -> list[Extent]:
    """Returns the words of a text as its model cuts them, without special tokens."""
    pieces = text.pieces(tokenizer)
    membership, words = words_of(pieces, text)
    found = []
    for word, places in zip(words, positions_of(membership.tolist(), len(words)), strict=True):
        if not word.pieces[0].special:
            found.append(Extent(word.pieces[0].segment, word.start, word.end, tuple(places)))
    return found


def common_words(first: Sequence[Extent], second: Sequence[Extent]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yields the positions, in both models, of the shortest parts of a text that both cut off: a word that both have, or, where
    one has several words and the other one word, all of them together. Parts that only one of them reads are left out."""
    merged = sorted(
        [(word, 0) for word in first] + [(word, 1) for word in second], key=lambda one: (one[0].segment, one[0].start)
    )
    sides: tuple[list[int], list[int]] = ([], [])
    segment, end = -1, -1
    for word, side in merged:
        if word.segment != segment or word.start >= end:
            if all(sides):
                yield tuple(sorted(sides[0])), tuple(sorted(sides[1]))
            sides, segment, end = ([], []), word.segment, word.end
        sides[side].extend(word.places)
        end = max(end, word.end)
    if all(sides):
        yield tuple(sorted(sides[0])), tuple(sorted(sides[1]))
