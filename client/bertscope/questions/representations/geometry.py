"""Describes where the hidden states of each layer lie, from sums over texts."""

from __future__ import annotations

import dataclasses
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bertscope.errors import invalid_argument
from bertscope.values.display import data_frame, table_html
from bertscope.values.merging import added, require_same, same_weights
from bertscope.values.results import Provenance
from bertscope.values.validation import TextOrPair

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["GeometryDescription"]

Vector = npt.NDArray[np.float64]

OCCURRENCES = 5
"""Words with fewer vectors are left out of the mean self-similarity (Ethayarajh 2019, section 3.1)."""
WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, eq=False, repr=False)
class WordDirections:
    """The directions x / ||x|| of one word's vectors, summed."""

    vectors: int
    """The word's vectors."""
    sums: Vector
    """[layers, hidden_size]."""

    def __add__(self, other: WordDirections) -> WordDirections:
        return WordDirections(self.vectors + other.vectors, self.sums + other.sums)


@dataclass(frozen=True, eq=False, repr=False)
class LayerSums:
    """Sums over all vectors of some layers; each array's rows are the layers."""

    directions: Vector
    """[layers, hidden_size], of x / ||x||."""
    direction_squares: Vector
    """[layers, hidden_size], of the squares of its components."""
    components: Vector
    """[layers, hidden_size], of x."""
    norms: Vector
    """[layers], of ||x||."""
    norm_squares: Vector
    """[layers], of ||x||^2."""
    similarities: Vector
    """[layers], over texts of two or more vectors: the mean cosine between a vector and the mean of the text's."""
    similarity_squares: Vector
    """[layers], of the squares of it."""
    text_direction_squares: Vector
    """[layers, hidden_size], over texts: the squares of the components of the sum of the text's x / ||x||."""
    pair_similarities: Vector
    """[layers], over texts of two or more vectors: the mean cosine over the text's pairs of different vectors."""
    moments: Vector | None
    """[layers, hidden_size * (hidden_size + 1) / 2], of the products of the components of x: upper triangles, row by row; None
    unless requested."""

    def __add__(self, other: LayerSums) -> LayerSums:
        found: dict[str, Vector | None] = {}
        for field in dataclasses.fields(self):
            own, others = getattr(self, field.name), getattr(other, field.name)
            found[field.name] = None if own is None or others is None else own + others
        return LayerSums(**found)  # type: ignore[arg-type]  # only moments may be None


@dataclass(frozen=True, eq=False, repr=False)
class GeometryDescription:
    """The geometry of hidden states by layer, summed over texts; its methods return a number for each layer. Compared by
    identity, as numpy arrays have no truth value."""

    layers: tuple[int, ...]
    """Layer of each row of the arrays: 0 is the embeddings, k the output of layer k - 1."""
    texts: int
    """The texts or pairs described."""
    compared_texts: int
    """The texts of two or more vectors."""
    tokens: int
    """Their tokens together, special tokens included."""
    truncated_texts: int
    """The texts that were cut."""
    vectors: int
    """The vectors: words or pieces."""
    squared_vectors: int
    """The sum over texts of the squared number of the text's vectors."""
    sums: LayerSums
    """The sums that all numbers are computed from."""
    words: Mapping[str, WordDirections]
    """The requested words that some text has."""
    pieces: bool
    """True if each piece has a vector, False if each word has one."""
    provenance: Provenance
    """Provenance of the numbers."""

    def __repr__(self) -> str:
        asked = f"{len(self.layers)} layers, {self.texts} texts, {self.vectors} vectors"
        return f"<GeometryDescription: {asked}, {self.provenance.model}>"

    def anisotropy(self) -> Vector:
        """Returns the mean cosine over all pairs of vectors of different texts, -1 to 1; NaN with fewer than two texts
        (Ethayarajh 2019, section 4.1, where it is estimated from random pairs). Vectors of one text are alike for another
        reason, and few texts have many such pairs."""
        return np.asarray(self._between_texts().sum(axis=1))

    def similarity_in_texts(self, *, adjusted: bool = False) -> Vector:
        """Returns the mean over texts of the mean cosine over pairs of a text's different vectors, -1 to 1; `adjusted`: less
        the anisotropy."""
        return self._mean_over_texts(self.sums.pair_similarities, adjusted)

    def intra_sentence_similarity(self, *, adjusted: bool = False) -> Vector:
        """Returns the mean over texts of the mean cosine between a vector and the mean of its text's vectors, -1 to 1;
        `adjusted`: less the anisotropy (Ethayarajh 2019, section 3.3).

        A vector is a part of that mean, so that the adjusted number is above 0 for words that have nothing to do with each
        other, about 1 / sqrt(n) in a text of n; `similarity_in_texts` has no such part.
        """
        return self._mean_over_texts(self.sums.similarities, adjusted)

    def self_similarity(self, word: str | None = None, *, adjusted: bool = False, occurrences: int = OCCURRENCES) -> Vector:
        """Returns the mean cosine over pairs of a word's vectors, -1 to 1; `adjusted`: less the anisotropy (Ethayarajh 2019,
        section 3.3).

        Without a word, the mean over the requested words of at least so many `occurrences`; NaN without any. Raises
        KeyError for a word that was not requested, or that no text has.
        """
        if word is None:
            chosen = [each for each in self.words.values() if each.vectors >= max(occurrences, 2)]
            found = [mean_cosines(each.sums, each.vectors) for each in chosen]
            return self._adjusted(np.mean(found, axis=0) if found else np.full(len(self.layers), math.nan), adjusted)
        names = {name.casefold(): name for name in self.words}
        if word.casefold() not in names:
            raise KeyError(f"no vector of {word!r}: it was not requested, or no text has it")
        each = self.words[names[word.casefold()]]
        return self._adjusted(mean_cosines(each.sums, each.vectors), adjusted)

    def norm(self) -> Vector:
        """Returns the mean length ||x||."""
        return self.sums.norms / self.vectors

    def norm_deviation(self) -> Vector:
        """Returns the standard deviation of ||x||, of all vectors."""
        return np.asarray(np.sqrt(np.maximum(self.sums.norm_squares / self.vectors - self.norm() ** 2, 0)))

    def dimension_shares(self) -> Vector:
        """Returns [layers, hidden_size]: the part of each dimension in the anisotropy, which add up to 1 (Timkey and van
        Schijndel 2021, section 3); NaN with fewer than two texts."""
        parts = self._between_texts()
        return np.asarray(parts / parts.sum(axis=1, keepdims=True))

    def variance_shares(self, count: int = 1) -> Vector:
        """Returns the share of the vectors' squared length that lies along the first `count` singular directions, 0 to 1.

        The vectors are not centred, as in Ethayarajh 2019, section 3.3 (maximum explainable variance). Raises InvalidArgument
        without second moments.
        """
        values = self._spectrum(centred=False)
        return np.asarray(values[:, :count].sum(axis=1) / values.sum(axis=1))

    def effective_rank(self) -> Vector:
        """Returns the effective rank of the centred vectors: exp of the entropy of their singular values, divided by the sum of
        them, 1 to hidden_size (Roy and Vetterli 2007). Raises InvalidArgument without second moments."""
        values = np.sqrt(self._spectrum(centred=True))
        shares = values / values.sum(axis=1, keepdims=True)
        logs = np.log(np.where(shares > 0, shares, 1.0))
        return np.asarray(np.exp(-(shares * logs).sum(axis=1)))

    @classmethod
    def merge(cls, parts: Iterable[GeometryDescription]) -> GeometryDescription:
        """Returns the description of all texts of the parts, the same as of one call with them all.

        Raises InvalidArgument without a part, or for parts with other layers or vectors, FailedPrecondition for models with
        other weights.
        """
        parts = [*parts]
        source = same_weights(part.provenance for part in parts)
        require_same(parts, ("layers", "pieces", "has_second_moments"))
        words: dict[str, WordDirections] = {}
        for part in parts:
            for word, sums in part.words.items():
                words[word] = words[word] + sums if word in words else sums
        return cls(
            layers=parts[0].layers,
            pieces=parts[0].pieces,
            words=words,
            provenance=source,
            **added(parts, ("texts", "compared_texts", "tokens", "truncated_texts", "vectors", "squared_vectors", "sums")),
        )

    @property
    def has_second_moments(self) -> bool:
        """True if the sums of products of components are there."""
        return self.sums.moments is not None

    def _between_texts(self) -> Vector:
        """Returns [layers, hidden_size]: each dimension's part in the mean cosine of vectors of different texts."""
        pairs = self.vectors**2 - self.squared_vectors
        if not pairs:
            return np.full(self.sums.directions.shape, math.nan)
        # The square of the sum of all directions is of all pairs; those within a text are taken off.
        return np.asarray((self.sums.directions**2 - self.sums.text_direction_squares) / pairs)

    def _mean_over_texts(self, sums: Vector, adjusted: bool) -> Vector:
        if not self.compared_texts:
            return np.full(len(self.layers), math.nan)
        return self._adjusted(sums / self.compared_texts, adjusted)

    def _adjusted(self, similarity: Vector, adjusted: bool) -> Vector:
        return similarity - self.anisotropy() if adjusted else similarity

    def _spectrum(self, *, centred: bool) -> Vector:
        """Returns [layers, hidden_size]: the squares of the singular values of the vectors, descending."""
        if self.sums.moments is None:
            raise invalid_argument("second_moments", "were not requested; describe the geometry with second_moments=True")
        size = self.sums.components.shape[1]
        upper = np.triu_indices(size)
        found = []
        for triangle, components in zip(self.sums.moments, self.sums.components, strict=True):
            products = np.zeros((size, size))
            products[upper] = triangle
            products = products + np.triu(products, 1).T
            if centred:
                products -= np.outer(components, components) / self.vectors
            found.append(np.linalg.eigvalsh(products)[::-1])
        return np.maximum(np.array(found), 0)

    def _repr_html_(self) -> str | None:
        return table_html(self)

    def to_pandas(self) -> pd.DataFrame:
        """Returns a row for each layer: its number and all numbers of it. Needs the extra "pandas"."""
        return data_frame(geometry_columns(self))


def frequent_words(texts: Iterable[TextOrPair], count: int) -> list[str]:
    """Returns the most frequent words of texts, of OCCURRENCES or more, letter case ignored; the most frequent one first."""
    found = Counter[str]()
    for text in texts:
        for part in (text,) if isinstance(text, str) else text:
            found.update(word.casefold() for word in WORD.findall(part))
    return [word for word, occurrences in found.most_common(count) if occurrences >= OCCURRENCES]


def mean_cosines(directions: Vector, count: int) -> Vector:
    """Returns the mean cosine over all pairs of different vectors, from the sums of their directions, [layers, hidden_size]."""
    if count < 2:
        return np.full(len(directions), math.nan)
    # The sum over ordered pairs is the squared length of the sum of all directions, less each with itself.
    return np.asarray(((directions**2).sum(axis=1) - count) / (count * (count - 1)))


def geometry_columns(description: GeometryDescription) -> dict[str, npt.NDArray[Any]]:
    """Returns the columns of `GeometryDescription.to_pandas`; needs no pandas."""
    shares = description.dimension_shares()
    descending = np.sort(shares, axis=1)[:, ::-1]
    columns: dict[str, npt.NDArray[Any]] = {
        "layer": np.array(description.layers),
        "vectors": np.full(len(description.layers), description.vectors),
        "anisotropy": description.anisotropy(),
        "similarity_in_texts": description.similarity_in_texts(),
        "similarity_in_texts_adjusted": description.similarity_in_texts(adjusted=True),
        "intra_sentence_similarity": description.intra_sentence_similarity(),
        "intra_sentence_similarity_adjusted": description.intra_sentence_similarity(adjusted=True),
        "norm": description.norm(),
        "norm_deviation": description.norm_deviation(),
        "largest_dimension": shares.argmax(axis=1),
        "largest_dimension_share": descending[:, 0],
        "largest_three_share": descending[:, :3].sum(axis=1),
    }
    if description.words:
        columns["self_similarity"] = description.self_similarity()
        columns["self_similarity_adjusted"] = description.self_similarity(adjusted=True)
    if description.has_second_moments:
        columns["first_direction_share"] = description.variance_shares()
        columns["effective_rank"] = description.effective_rank()
    return columns


def word_columns(description: GeometryDescription) -> dict[str, npt.NDArray[Any]]:
    """Returns a row for each requested word and layer: word, vectors, layer, self-similarity, and the same adjusted."""
    words = [(name, sums) for name, sums in description.words.items() if sums.vectors > 1]
    count = len(description.layers)
    empty = [np.zeros(0)]
    return {
        "word": np.repeat([name for name, _ in words], count),
        "vectors": np.repeat([sums.vectors for _, sums in words], count),
        "layer": np.tile(np.array(description.layers), len(words)),
        "self_similarity": np.concatenate([description.self_similarity(name) for name, _ in words] or empty),
        "self_similarity_adjusted": np.concatenate(
            [description.self_similarity(name, adjusted=True) for name, _ in words] or empty
        ),
    }


def document(description: GeometryDescription) -> dict[str, Any]:
    """Returns the description in JSON types."""
    columns = {name: values.tolist() for name, values in geometry_columns(description).items() if name != "vectors"}
    return {
        "texts": description.texts,
        "compared_texts": description.compared_texts,
        "tokens": description.tokens,
        "truncated_texts": description.truncated_texts,
        "vectors": description.vectors,
        "pieces": description.pieces,
        "layers": [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)],
        "words": [
            {
                "word": name,
                "vectors": sums.vectors,
                "self_similarity": description.self_similarity(name).tolist() if sums.vectors > 1 else None,
            }
            for name, sums in description.words.items()
        ],
        "provenance": dataclasses.asdict(description.provenance),
    }
