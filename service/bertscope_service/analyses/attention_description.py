"""Statistics of attention over texts: numbers for each head, as counts, sums and sums of squares, which add up over calls."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.attention_patterns import Pattern, exists, scores
from bertscope_service.analyses.head_sums import HeadSums
from bertscope_service.analyses.observers.attention_statistics import (
    SPECIAL,
    MapNumber,
    MapNumbers,
    StatisticsObserver,
    TokenKinds,
)
from bertscope_service.analyses.observers.head_distances import DivergenceObserver
from bertscope_service.analyses.observers.quantities import Quantity
from bertscope_service.analyses.texts import check_finite, read_inputs
from bertscope_service.checkpoints.tokenized_text import TokenizedText
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.base import Shape
from bertscope_service.encoders.observer import Observer
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import InvalidArgument

PUNCTUATION = (".", ",")
"""The vocabulary entries that count as punctuation unless a query names others (Clark et al. 2019, section 3.2)."""

KEPT_BYTES = 64 * 1024 * 1024
"""Maximum size of the maps of all heads that are compared at a time."""

NUMBER_BYTES = 16
"""Size of the sums of a number of one head in a reply."""


class Statistic(IntEnum):
    """A statistic of a head; see bertscope.v1.AttentionStatistic. Its value is that of the MapNumber of this name."""

    FIRST_SPECIAL = MapNumber.FIRST_SPECIAL
    SEPARATORS = MapNumber.SEPARATORS
    LARGEST_SEPARATOR = MapNumber.LARGEST_SEPARATOR
    SELF = MapNumber.SELF
    PREVIOUS = MapNumber.PREVIOUS
    NEXT = MapNumber.NEXT
    PUNCTUATION = MapNumber.PUNCTUATION
    SAME_TEXT = MapNumber.SAME_TEXT
    OTHER_TEXT = MapNumber.OTHER_TEXT
    ENTROPY = MapNumber.ENTROPY
    FIRST_SPECIAL_ENTROPY = MapNumber.FIRST_SPECIAL_ENTROPY
    CONFIDENCE = MapNumber.CONFIDENCE
    DISTANCE = MapNumber.DISTANCE


@dataclass(frozen=True, slots=True)
class DescriptionQuery:
    """A DescribeAttention request; `layers` are in the requested order, never empty; no `punctuation` means the usual."""

    inputs: tuple[tuple[str, str | None], ...]
    layers: tuple[int, ...]
    punctuation: tuple[str, ...]
    head_distances: bool
    truncate: bool
    quantity: Quantity = Quantity.WEIGHTS


@dataclass(frozen=True, slots=True, eq=False)
class PatternSums:
    """One pattern of all heads: the texts whose map is of this class, int64 [layers, heads], and its scores."""

    texts: NDArray[np.int64]
    scores: HeadSums


@dataclass(frozen=True, slots=True, eq=False)
class Description:
    """The answer to a query. `distances`: sums over texts of the divergences between heads, nats, float64 [n, n] with
    n = layers * heads; None unless requested."""

    statistics: Mapping[Statistic, HeadSums]
    patterns: Mapping[Pattern, PatternSums]
    distances: NDArray[np.float64] | None


class DescriptionPlan:
    """The rows for a query, and the conversion of their results to sums.

    >>> plan = DescriptionPlan(query, tokenizer, shape)
    >>> results = await engine.run(plan.rows, ...)
    >>> plan.describe(results)

    Each text is a row, and with distances between heads one or more further ones. Raises InvalidArgument for a text that is too
    long or holds no token, and for punctuation that is not a single piece.
    """

    def __init__(self, query: DescriptionQuery, tokenizer: TextTokenizer, shape: Shape) -> None:
        self.query = query
        self.heads = shape.heads if query.quantity.by_head else 1
        punctuation = punctuation_ids(query.punctuation, tokenizer)
        self.texts = list(read_inputs(tokenizer, query.inputs, "inputs", truncate=query.truncate))
        self.kinds = [kinds_of(text, punctuation) for text in self.texts]
        self.rows: list[tuple[TokenSequence, Observer]] = [
            (text.sequence, StatisticsObserver(query.layers, kinds, query.quantity))
            for text, kinds in zip(self.texts, self.kinds, strict=True)
        ]
        if query.head_distances:
            self.rows += self._distance_rows()

    def _distance_rows(self) -> Iterator[tuple[TokenSequence, DivergenceObserver]]:
        """Yields the rows that compare heads, as many rows of a text's maps at a time as fit into KEPT_BYTES."""
        for text in self.texts:
            for start, stop in self._parts(text):
                yield text.sequence, DivergenceObserver(self.query.layers, start, stop, self.query.quantity)

    def _parts(self, text: TokenizedText) -> Iterator[tuple[int, int]]:
        """Yields the rows [start, stop) of a text's maps that are compared at a time."""
        length = len(text)
        step = max(1, KEPT_BYTES // (4 * self._maps * length))
        yield from ((start, min(length, start + step)) for start in range(0, length, step))

    @property
    def _maps(self) -> int:
        return len(self.query.layers) * self.heads

    @property
    def reply_bytes(self) -> int:
        """Approximate size of the reply, bytes."""
        numbers = len(Statistic) + 2 * len(Pattern)
        return NUMBER_BYTES * numbers * self._maps + (8 * self._maps**2 if self.query.head_distances else 0)

    @property
    def tokens(self) -> int:
        """The tokens of all texts, special ones included."""
        return sum(map(len, self.texts))

    @property
    def truncated_texts(self) -> int:
        return sum(text.truncated > 0 for text in self.texts)

    def describe(self, results: Sequence[Any]) -> Description:
        """Returns the sums over all texts. Raises FailedPrecondition for weights that are not finite."""
        texts: Sequence[MapNumbers] = results[: len(self.texts)]
        compared: Sequence[NDArray[np.float32]] = results[len(self.texts) :]
        numbers, uniform = (np.stack(parts) for parts in zip(*((one.numbers, one.uniform) for one in texts), strict=True))
        check_finite([numbers, *compared])
        statistics = statistic_sums(numbers, self.kinds)
        return Description(statistics, pattern_sums(numbers, uniform), self._distances(compared) if compared else None)

    def _distances(self, compared: Iterable[NDArray[np.float32]]) -> NDArray[np.float64]:
        """Returns the sums over texts of the mean divergences over rows."""
        found = np.zeros((self._maps, self._maps))
        results = iter(compared)
        for text in self.texts:
            for _ in self._parts(text):
                found += next(results).astype(np.float64) / len(text)
        return found


def statistic_sums(numbers: NDArray[np.float32], kinds: Sequence[TokenKinds]) -> dict[Statistic, HeadSums]:
    """Sums each statistic over the texts that have it.

    numbers: [texts, layers, heads, MapNumber]. kinds: of the tokens of each text.
    """
    special = np.array([(one.texts == SPECIAL).sum() for one in kinds])
    several = np.array([len(one.texts) > 1 for one in kinds])
    has = {
        Statistic.PREVIOUS: several,
        Statistic.NEXT: several,
        Statistic.SAME_TEXT: np.array([bool(max((one.texts == text).sum() for text in (0, 1)) > 1) for one in kinds]),
        Statistic.FIRST_SPECIAL: special > 0,
        Statistic.FIRST_SPECIAL_ENTROPY: special > 0,
        Statistic.SEPARATORS: special > 1,
        Statistic.LARGEST_SEPARATOR: special > 1,
        Statistic.OTHER_TEXT: np.array([{0, 1} <= {*one.texts.tolist()} for one in kinds]),
    }
    every = np.ones(len(kinds), dtype=np.bool_)
    chosen = {one: has.get(one, every) for one in Statistic}
    return {one: HeadSums.of(numbers[which, :, :, one]) for one, which in chosen.items() if which.any()}


def pattern_sums(numbers: NDArray[np.float32], uniform: NDArray[np.float32]) -> dict[Pattern, PatternSums]:
    """Classifies maps, [texts, layers, heads, MapNumber]; uniform: [texts, MapNumber]. Maps of zeros are of no pattern."""
    found = scores(numbers, uniform[:, None, None])
    classes = np.where(exists(numbers), found.argmax(axis=-1), -1)
    return {one: PatternSums((classes == one).sum(axis=0), HeadSums.of(found[..., one])) for one in Pattern}


def kinds_of(tokenized: TokenizedText, punctuation: Collection[int]) -> TokenKinds:
    """Returns the kinds of a text's tokens. punctuation: ids that count as such."""
    texts = [SPECIAL if which is None else which for which in tokenized.encoding.sequence_ids]
    return TokenKinds(np.array(texts, dtype=np.int8), np.isin(tokenized.sequence.ids, list(punctuation)))


def punctuation_ids(entries: Sequence[str], tokenizer: TextTokenizer) -> frozenset[int]:
    """Returns the ids of pieces that are written as one of the entries, at the start of a word or in it; the usual ones if
    there are none. Raises InvalidArgument for an entry that is no single piece."""
    found = set[int]()
    for index, entry in enumerate(entries or PUNCTUATION):
        ids = _ids_of(entry, tokenizer)
        if entries and not ids:
            message = f"punctuation[{index}] is no single piece of this model's vocabulary; leave it out"
            raise InvalidArgument(f"punctuation[{index}]", message, "NOT_ONE_PIECE")
        found |= ids
    return frozenset(found)


def _ids_of(entry: str, tokenizer: TextTokenizer) -> set[int]:
    """Returns the ids of an entry as the vocabulary writes it, alone, after a blank, and after a letter."""
    named = {tokenizer.entry(written) for written in (entry, f"##{entry}")}
    pieces = [tokenizer.pieces_in_context(entry, before) for before in ("", " ", "x")]
    alone = {ids[0] for ids in pieces if len(ids) == 1}
    return {token for token in named | alone if token is not None and token != tokenizer.unknown_id}
