"""Geometry of hidden states over texts: numbers for each layer as counts and sums, which add up over calls.

Ethayarajh 2019, section 3.3 (self-similarity, intra-sentence similarity, anisotropy); Timkey and van Schijndel 2021, section 3
(dimensions that dominate the cosine).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.observers.geometry import GeometryObserver, GeometrySums, TextVectors
from bertscope_service.analyses.observers.pooling import Pooling, Units
from bertscope_service.analyses.texts import check_finite, read_inputs
from bertscope_service.analyses.words import positions_of, words_of
from bertscope_service.checkpoints.tokenized_text import TokenizedText
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.observer import Observer
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import InvalidArgument

MOMENT_TOKENS = 1024
"""A batch has its own second moments; batches are of so many tokens, or more."""

MAX_MOMENT_BYTES = 256 * 1024 * 1024
"""Maximum size of the second moments of all batches of a call."""

SUM_BYTES = 8


@dataclass(frozen=True, slots=True)
class GeometryQuery:
    """A DescribeGeometry request; `layers` are in the requested order, never empty, `words` in theirs."""

    inputs: tuple[tuple[str, str | None], ...]
    layers: tuple[int, ...]
    pieces: bool
    special_tokens: bool
    words: tuple[str, ...]
    second_moments: bool
    truncate: bool


@dataclass(frozen=True, slots=True, eq=False)
class LayerSums:
    """The sums of one layer's vectors; see bertscope.v1.LayerGeometry. moments: float32 [size, size], None unless requested."""

    layer: int
    directions: NDArray[np.float64]
    direction_squares: NDArray[np.float64]
    components: NDArray[np.float64]
    norms: float
    norm_squares: float
    similarities: float
    similarity_squares: float
    text_direction_squares: NDArray[np.float64]
    pair_similarities: float
    moments: NDArray[np.float32] | None


@dataclass(frozen=True, slots=True, eq=False)
class WordSums:
    """The vectors of one word, and the sums of their directions, float64 [layers, size]."""

    vectors: int
    directions: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Geometry:
    """The answer to a query: each layer in the requested order, and the words that some text has, by their index."""

    layers: Sequence[LayerSums]
    words: Mapping[int, WordSums]


class GeometryPlan:
    """The rows for a query, and the conversion of their results to sums.

    Raises InvalidArgument for a text that is too long or holds no token, and for second moments that take too much memory.
    """

    def __init__(self, query: GeometryQuery, tokenizer: TextTokenizer, size: int) -> None:
        """`size`: the length of a state."""
        self.query, self.size = query, size
        self.texts = list(read_inputs(tokenizer, query.inputs, "inputs", truncate=query.truncate))
        self._ascending = tuple(sorted(query.layers))
        self._names = {word.casefold(): index for index, word in enumerate(query.words)}
        self._check_moments()
        found = [self._vectors(text, tokenizer) for text in self.texts]
        self.vectors = [vectors for vectors, _ in found]
        self._wanted = [names for _, names in found]
        moments = object() if query.second_moments else None
        self.rows: list[tuple[TokenSequence, Observer]] = [
            (text.sequence, GeometryObserver(self._ascending, vectors, moments))
            for text, vectors in zip(self.texts, self.vectors, strict=True)
        ]

    def _check_moments(self) -> None:
        if self.query.second_moments and self._moment_bytes > MAX_MOMENT_BYTES:
            message = (
                f"second_moments of {len(self.query.layers)} layers and {self.tokens} tokens take {self._moment_bytes} bytes "
                f"and one call takes {MAX_MOMENT_BYTES}; ask for fewer layers, or send fewer texts"
            )
            raise InvalidArgument("second_moments", message, "MOMENTS_TOO_LARGE", limit=MAX_MOMENT_BYTES)

    def _vectors(self, text: TokenizedText, tokenizer: TextTokenizer) -> tuple[TextVectors, tuple[int, ...]]:
        """Returns the vectors of a text, and the index of the word of each that is wanted by itself."""
        pieces = text.pieces(tokenizer)
        if self.query.pieces:
            groups: Sequence[Sequence[int]] = [[place] for place in range(len(pieces))]
            names = [text.texts[piece.segment][piece.start : piece.end] or piece.text for piece in pieces]
        else:
            membership, words = words_of(pieces, text)
            groups, names = positions_of(membership.tolist(), len(words)), [word.text for word in words]
        used, wanted = list[Sequence[int]](), list[tuple[int, int]]()
        for places, name in zip(groups, names, strict=True):
            special = pieces[places[0]].special
            if special and not self.query.special_tokens:
                continue
            word = None if special else self._names.get(name.strip().casefold())
            if word is not None:
                wanted.append((len(used), word))
            used.append(places)
        vectors = TextVectors(Units.made(used, Pooling.MEAN), tuple(place for place, _ in wanted))
        return vectors, tuple(word for _, word in wanted)

    @property
    def _moment_bytes(self) -> int:
        """The size of the second moments of all batches, bytes."""
        batches = min(len(self.texts), 1 + self.tokens // MOMENT_TOKENS)
        return 4 * len(self.query.layers) * self.size**2 * batches

    @property
    def reply_bytes(self) -> int:
        """Approximate size of the sums of all texts, bytes, which is above that of the reply."""
        layers, wanted = len(self.query.layers), sum(map(len, self._wanted))
        sums = SUM_BYTES * layers * self.size * (3 * len(self.texts) + wanted)
        return sums + (self._moment_bytes if self.query.second_moments else 0)

    @property
    def tokens(self) -> int:
        """The tokens of all texts, special ones included."""
        return sum(map(len, self.texts))

    @property
    def truncated_texts(self) -> int:
        return sum(text.truncated > 0 for text in self.texts)

    @property
    def squared_vectors(self) -> int:
        """The sum over texts of the squared number of their vectors."""
        return sum(vectors.units.count**2 for vectors in self.vectors)

    @property
    def compared_texts(self) -> int:
        """The texts of two or more vectors."""
        return sum(vectors.units.count > 1 for vectors in self.vectors)

    def describe(self, results: Sequence[GeometrySums]) -> Geometry:
        """Returns the sums over all texts. Raises FailedPrecondition for states that are not finite."""
        arrays = (array for result in results for array in (result.vectors, result.numbers))
        check_finite(arrays, "hidden states", "STATES_NOT_FINITE")
        vectors = np.stack([result.vectors for result in results]).sum(axis=0, dtype=np.float64)
        numbers = np.stack([result.numbers for result in results]).astype(np.float64)
        counts = np.array([one.units.count for one in self.vectors], dtype=np.float64)
        some = counts > 1
        compared, pairs = numbers[some, :, 2], counts[some] * (counts[some] - 1)
        moments = [result.moments for result in results if result.moments is not None]
        layers = []
        for layer in self.query.layers:
            place = self._ascending.index(layer)
            norms, squares = numbers[:, place, :2].sum(axis=0).tolist()
            similar = compared[:, place]
            products = sum(one[place].astype(np.float64) for one in moments).astype(np.float32) if moments else None
            directions, direction_squares, components = vectors[place]
            within = np.stack([result.vectors[place, 0] for result in results]).astype(np.float64) ** 2
            # The squared length of a sum of directions holds each vector with itself, whose cosine is 1, and its pairs.
            cosines = (within[some].sum(axis=1) - counts[some]) / pairs
            layers.append(
                LayerSums(
                    layer=layer,
                    directions=directions,
                    direction_squares=direction_squares,
                    components=components,
                    norms=norms,
                    norm_squares=squares,
                    similarities=float(similar.sum()),
                    similarity_squares=float((similar**2).sum()),
                    text_direction_squares=within.sum(axis=0),
                    pair_similarities=float(cosines.sum()),
                    moments=products,
                )
            )
        return Geometry(layers, self._words(results))

    def _words(self, results: Sequence[GeometrySums]) -> dict[int, WordSums]:
        """Returns the sums of each word that some text has, by its index, ascending."""
        order = [self._ascending.index(layer) for layer in self.query.layers]
        found: dict[int, list[NDArray[np.float32]]] = {}
        for words, result in zip(self._wanted, results, strict=True):
            for word, directions in zip(words, result.wanted, strict=True):
                found.setdefault(word, []).append(directions[order])
        return {word: WordSums(len(found[word]), np.sum(found[word], axis=0, dtype=np.float64)) for word in sorted(found)}
