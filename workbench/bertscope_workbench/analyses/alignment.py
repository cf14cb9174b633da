"""Aligns the words of translations by their states, and compares alignments with those that people made."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Any, Literal, NamedTuple, SupportsIndex, get_args

import numpy as np
import numpy.typing as npt
from bertscope import BertscopeError, Client, HiddenStates, InvalidArgument, Model
from bertscope.errors import invalid_argument
from bertscope.questions.representations.states import StatesInput
from bertscope.rpc.splitting import OnRejected, located
from bertscope.values import validation
from bertscope.values.columns import named
from bertscope.values.display import record
from bertscope.values.results import Provenance, Results

__all__ = ["AlignedWords", "AlignmentScores", "GoldAlignment", "WordAlignment", "WordLink", "align_words", "score_alignments"]

AlignmentMethod = Literal["argmax", "itermax"]
METHODS = {name: name for name in get_args(AlignmentMethod)}
WORD = re.compile(r"\S+")
ALPHA, ITERATIONS = 0.9, 2
"""The factor by which itermax lowers a word that is linked already, and its rounds."""
LINK = re.compile(r"(\d+)([-p])(\d+)")
LINK_COLUMNS = ("pair", "source", "target", "source_word", "target_word", "similarity")

Matrix = npt.NDArray[np.float64]


class WordLink(NamedTuple):
    """Two words that are linked."""

    source: int
    """Index of the word in the source, from 0."""
    target: int
    """Index of the word in the target."""
    similarity: float
    """Cosine of their states, -1 to 1."""


@record
class WordAlignment:
    """The linked words of one pair of sentences."""

    index: int
    """Index of the pair among the call's pairs."""
    source_words: tuple[str, ...]
    """The words of the source: what blanks separate."""
    target_words: tuple[str, ...]
    """The words of the target."""
    links: tuple[WordLink, ...]
    """The links, by source and target."""
    layer: int
    """The layer of the states: 0 the embeddings, k the output of layer k - 1."""
    method: str
    """"argmax" or "itermax"."""
    provenance: Provenance
    """Provenance of the states."""

    @property
    def pharaoh(self) -> str:
        """The links as "0-0 1-2": source-target, from 0."""
        return " ".join(f"{link.source}-{link.target}" for link in self.links)

    def rows(self) -> list[tuple[Any, ...]]:
        """Returns a row for each link; columns as `AlignedWords.to_pandas`."""
        words = self.source_words, self.target_words
        return [(self.index, *link[:2], words[0][link.source], words[1][link.target], link.similarity) for link in self.links]


class AlignedWords(Results[WordAlignment]):
    """The alignments of one `align_words` call, one for each pair that was not left out, in order."""

    __slots__ = ()

    _table = named(*LINK_COLUMNS)

    def _rows(self) -> Iterable[tuple[Any, ...]]:
        """Returns a row for each link: pair (index), source and target (indices of words), source_word, target_word,
        similarity."""
        return [row for alignment in self for row in alignment.rows()]


@record
class GoldAlignment:
    """The links of one pair of sentences that people made: (source, target), from 0."""

    sure: frozenset[tuple[int, int]]
    """Links that must be there."""
    possible: frozenset[tuple[int, int]]
    """Links that may be there, the sure ones among them."""

    @classmethod
    def parse(cls, line: str) -> GoldAlignment:
        """Reads "0-0 1p2": "-" makes a sure link, "p" a possible one. Raises InvalidArgument for anything else."""
        sure, possible = set(), set()
        for entry in validation.text("line", line).split():
            found = LINK.fullmatch(entry)
            if found is None:
                raise invalid_argument("line", f"{entry!r} is no link; write 3-4 for a sure link of words 3 and 4, 3p4 else")
            link = int(found[1]), int(found[3])
            possible.add(link)
            if found[2] == "-":
                sure.add(link)
        return cls(frozenset(sure), frozenset(possible))


@record
class AlignmentScores:
    """How found links agree with those that people made, summed over pairs (Och and Ney 2003, section 5.1)."""

    pairs: int
    """The pairs."""
    found: int
    """The links that were found."""
    sure: int
    """The links that must be there."""
    found_sure: int
    """The found links that must be there."""
    found_possible: int
    """The found links that may be there."""

    @property
    def precision(self) -> float:
        """Share of the found links that may be there; NaN without any."""
        return self.found_possible / self.found if self.found else float("nan")

    @property
    def recall(self) -> float:
        """Share of the sure links that were found; NaN without any."""
        return self.found_sure / self.sure if self.sure else float("nan")

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        both = self.precision + self.recall
        return 0.0 if both == 0 else 2 * self.precision * self.recall / both

    @property
    def error_rate(self) -> float:
        """Alignment error rate, 1 - (found_sure + found_possible) / (found + sure); NaN without any link."""
        whole = self.found + self.sure
        return 1 - (self.found_sure + self.found_possible) / whole if whole else float("nan")

    def __add__(self, other: AlignmentScores) -> AlignmentScores:
        names = ("pairs", "found", "sure", "found_sure", "found_possible")
        return AlignmentScores(**{name: getattr(self, name) + getattr(other, name) for name in names})


def score_alignments(found: Iterable[WordAlignment], gold: Sequence[GoldAlignment]) -> AlignmentScores:
    """Compares alignments with those that people made: `gold[k]` belongs to pair k of the call. Raises InvalidArgument for a
    pair without one, or a link to a word that the pair does not have."""
    whole = AlignmentScores(0, 0, 0, 0, 0)
    for one in found:
        if one.index >= len(gold):
            raise invalid_argument(
                "gold", f"has {len(gold)} alignments, and pair {one.index} needs one; give one for each pair"
            )
        right = gold[one.index]
        sizes = len(one.source_words), len(one.target_words)
        for link in right.possible:
            if not (link[0] < sizes[0] and link[1] < sizes[1]):
                raise invalid_argument(f"gold[{one.index}]", f"links {link[0]}-{link[1]}, of {sizes[0]} and {sizes[1]} words")
        links = {link[:2] for link in one.links}
        whole += AlignmentScores(1, len(links), len(right.sure), len(links & right.sure), len(links & right.possible))
    return whole


def marked_pairs(pairs: Iterable[tuple[str, str]]) -> list[StatesInput]:
    """Returns both sentences of each pair, one after the other, their words marked. Raises InvalidArgument for what is no pair
    of texts, and a text without a word."""
    found = []
    for index, pair in enumerate(validation.many("pairs", pairs, "pairs of sentences")):
        if not (isinstance(pair, (tuple, list)) and len(pair) == 2):
            raise invalid_argument(f"pairs[{index}]", "must be a pair of sentences (source, target)")
        for text in pair:
            words = [match.span() for match in WORD.finditer(validation.text(f"pairs[{index}]", text))]
            if not words:
                raise invalid_argument(f"pairs[{index}]", "has a sentence without a word; leave the pair out")
            found.append(StatesInput(text, words))
    if not found:
        raise invalid_argument("pairs", "is empty; give at least one")
    return found


def links_of(sources: npt.NDArray[Any], targets: npt.NDArray[Any], method: str) -> tuple[WordLink, ...]:
    """Returns the links of words by their states, [words, hidden_size] each."""
    one, other = (_unit(np.asarray(states, dtype=np.float64)) for states in (sources, targets))
    cosines: Matrix = one @ other.T
    linked = mutual(cosines) if method == "argmax" else itermax((cosines + 1) / 2)
    return tuple(WordLink(int(row), int(column), float(cosines[row, column])) for row, column in np.argwhere(linked))


def mutual(similarities: Matrix) -> npt.NDArray[np.bool_]:
    """Returns where a similarity is the largest of its row and of its column (Jalili Sabet et al. 2020, section 2, Argmax). Of
    equal ones the first counts."""
    found = np.zeros(similarities.shape, dtype=bool)
    best = similarities.argmax(axis=0)
    for row, column in enumerate(similarities.argmax(axis=1)):
        found[row, column] = best[column] == row
    return found


def itermax(similarities: Matrix) -> npt.NDArray[np.bool_]:
    """Returns the links of repeated mutual maxima (Jalili Sabet et al. 2020, section 2, Itermax).

    In each round after the first, a similarity, 0 to 1, counts as it is if neither word is linked, times 0.9 if one is, and not
    at all if both are.
    """
    found = mutual(similarities)
    for _ in range(ITERATIONS - 1):
        rows, columns = found.any(axis=1, keepdims=True), found.any(axis=0, keepdims=True)
        factors = np.where(rows & columns, 0.0, np.where(rows | columns, ALPHA, 1.0))
        weighed: Matrix = similarities * factors
        found = found | (mutual(weighed) & (weighed > 0))
    return found


def _unit(states: Matrix) -> Matrix:
    return np.asarray(states / np.maximum(np.linalg.norm(states, axis=1, keepdims=True), np.finfo(np.float64).tiny))


def align_words(
    client: Client,
    pairs: Iterable[tuple[str, str]],
    *,
    layer: SupportsIndex,
    model: str | Model | None = None,
    method: AlignmentMethod = "argmax",
    on_rejected: OnRejected | None = None,
    timeout: float | None = None,
) -> AlignedWords:
    """Links the words of each sentence and its translation by the cosine of their states (Jalili Sabet et al. 2020).

    Words are what blanks separate; a word's state is the mean of its pieces' at `layer`: 0 is the embeddings, k the output
    of layer k - 1. "argmax" links two words that are each other's nearest; "itermax" does so again among those that are
    left, and so finds more links, some of several words to one. The states travel; those of one pair are held at a time.

    A pair of which the server rejects a text (too long) is an error that names `pairs[k]`, unless `on_rejected` takes k and
    the error: then it is left out. Raises InvalidArgument for a sentence without a word.
    """
    texts = marked_pairs(pairs)
    chosen, number = validation.choice("method", method, METHODS), validation.uint32("layer", layer)
    places = [index // 2 for index in range(len(texts))]
    left_out: set[int] = set()

    def leave_out(index: int, error: InvalidArgument) -> None:
        if places[index] not in left_out and on_rejected is not None:
            left_out.add(places[index])
            located(error, places, "pairs")
            on_rejected(places[index], error)

    found: list[WordAlignment] = []
    source: HiddenStates | None = None
    rejected = None if on_rejected is None else leave_out
    try:
        with closing(
            client.extract_hidden_states(texts, model=model, layers=number, unit="span", on_rejected=rejected, timeout=timeout)
        ) as states:
            for text in states:
                place = places[text.input_index]
                if text.input_index % 2 == 0:
                    source = text
                elif source is not None and source.input_index == text.input_index - 1:
                    one, other = (tuple(token.text for token in side.tokens) for side in (source, text))
                    links = links_of(source.states[0], text.states[0], chosen)
                    found.append(WordAlignment(place, one, other, links, number, chosen, text.provenance))
    except BertscopeError as error:
        located(error, places, "pairs")
        raise
    return AlignedWords(found)
