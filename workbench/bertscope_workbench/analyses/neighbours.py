"""Finds the nearest neighbours of a word's occurrences among the words of texts, in each layer, one text at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt
from bertscope import Client, Model
from bertscope.errors import invalid_argument
from bertscope.questions.representations.states import HiddenStates
from bertscope.rpc.async_many_texts import OnTexts
from bertscope.rpc.splitting import OnRejected
from bertscope.values import validation
from bertscope.values.columns import named
from bertscope.values.display import ShownAsTable, record
from bertscope.values.interventions import Interventions
from bertscope.values.messages import Numbers
from bertscope.values.results import Provenance, Token
from bertscope.values.validation import TextOrPair

from bertscope_workbench.analyses.streams import answers_of

__all__ = ["Neighbour", "Neighbourhoods", "Occurrence", "WordNeighbours", "nearest_neighbours"]

MAX_WORDS = 100
"""Words that are looked for."""
SMALLEST_NORM = 1e-12
NONE_ANSWERED = "no text was answered; give one or more, and correct what `on_rejected` was told"


@record
class Occurrence:
    """A word where it occurs."""

    input_index: int
    """Index of the text among those of the call."""
    token: Token
    """The word."""


@record
class Neighbour:
    """A word whose state is close to that of an occurrence."""

    cosine: float
    """Cosine of the two states, -1 to 1."""
    occurrence: Occurrence
    """The word and its text."""


@record(eq=False)
class WordNeighbours:
    """The nearest neighbours of one occurrence of a word, by layer."""

    word: str
    """The word that was looked for."""
    occurrence: Occurrence
    """The occurrence."""
    neighbours: Mapping[int, tuple[Neighbour, ...]]
    """The nearest first, by the number of the layer, 0 the embeddings."""


@record(eq=False)
class Neighbourhoods(ShownAsTable):
    """The nearest neighbours of some words' occurrences."""

    layers: tuple[int, ...]
    """The layers, 0 the embeddings."""
    texts: int
    """The texts searched."""
    searched: int
    """Their words."""
    found: tuple[WordNeighbours, ...]
    """Each occurrence, in the order of the words, then of the texts."""
    provenance: Provenance
    """Provenance of the states."""

    _table = named(
        "word", "input_index", "start", "layer", "rank", "cosine", "neighbour", "neighbour_input_index", "neighbour_start"
    )

    def _rows(self) -> Iterable[tuple[Any, ...]]:
        """Returns a row for each neighbour: word, input_index, start, layer, rank (1 is the nearest), cosine, neighbour,
        neighbour_input_index and neighbour_start."""
        return [
            (one.word, *_place(one.occurrence), layer, rank, near.cosine, near.occurrence.token.text, *_place(near.occurrence))
            for one in self.found
            for layer, nearest in one.neighbours.items()
            for rank, near in enumerate(nearest, start=1)
        ]


@dataclass(slots=True)
class Query:
    """The request of a search; `k` neighbours of the first `occurrences` of each word."""

    words: tuple[str, ...]
    k: int
    occurrences: int
    other_words: bool
    places: dict[str, int] = field(default_factory=dict)

    @classmethod
    def checked(cls, words: str | Iterable[str], k: object, occurrences: object, *, other_words: object) -> Query:
        """Raises InvalidArgument for no word, more than MAX_WORDS, two that differ in letter case alone, or a zero."""
        named = validation.not_empty("words", validation.texts("words", words))
        if len(named) > MAX_WORDS:
            raise invalid_argument("words", f"are {len(named)}; look for {MAX_WORDS} at a time")
        query = cls(
            tuple(named),
            validation.positive("k", k),
            validation.positive("occurrences", occurrences),
            other_words=validation.flag("other_words", other_words),
        )
        for index, word in enumerate(named):
            if folded(word) in query.places:
                raise invalid_argument(f"words[{index}]", "is there twice; letter case is ignored")
            query.places[folded(word)] = index
        return query

    def may_hold(self, text: TextOrPair) -> bool:
        """Returns whether a text has the letters of any of the words."""
        parts = (text,) if isinstance(text, str) else text
        return any(word in part.casefold() for part in parts for word in self.places)


class Found:
    """The occurrences of the words, as texts come in."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self._each: list[list[tuple[Occurrence, npt.NDArray[np.float32]]]] = [[] for _ in query.words]

    def add(self, index: int, states: HiddenStates) -> bool:
        """Adds the occurrences in text `index`. Returns whether every word has enough."""
        directions = _directions(states)
        for row, token in enumerate(states.tokens):
            place = None if token.special else self.query.places.get(folded(token.text))
            if place is not None and len(self._each[place]) < self.query.occurrences:
                self._each[place].append((Occurrence(index, token), directions[:, row].copy()))
        return all(len(each) == self.query.occurrences for each in self._each)

    def search(self) -> Search:
        """Returns the search for their neighbours. Raises InvalidArgument for a word that no text has."""
        for index, each in enumerate(self._each):
            if not each:
                raise invalid_argument(f"words[{index}]", "is a word of no text; name whole words, as the model cuts them")
        every = [(index, *one) for index, each in enumerate(self._each) for one in each]
        return Search(self.query, [(index, where) for index, where, _ in every], np.stack([one for *_, one in every], axis=1))


class Search:
    """The nearest neighbours of some occurrences, as texts come in; memory does not grow with these."""

    def __init__(
        self, query: Query, occurrences: Sequence[tuple[int, Occurrence]], directions: npt.NDArray[np.float32]
    ) -> None:
        """`directions`: [layers, occurrences, hidden_size]."""
        self._query, self._occurrences, self._directions = query, occurrences, directions
        shape = (*directions.shape[:2], query.k)
        self._cosines = np.full(shape, -np.inf)
        self._nearest = np.full(shape, None, dtype=object)
        self._texts = self._searched = 0
        self._last: HiddenStates | None = None

    def add(self, states: HiddenStates) -> None:
        """Compares the occurrences with the words of a text."""
        rows = [row for row, token in enumerate(states.tokens) if not token.special]
        self._texts, self._searched, self._last = self._texts + 1, self._searched + len(rows), states
        tokens = [states.tokens[row] for row in rows]
        cosines = (self._directions @ _directions(states)[:, rows].transpose(0, 2, 1)).astype(np.float64)
        cosines[:, self._left_out(states.input_index, tokens)] = -np.inf
        words = np.empty(len(rows), dtype=object)
        words[:] = [Occurrence(states.input_index, token) for token in tokens]
        together = np.concatenate([self._cosines, cosines], axis=2)
        order = np.argsort(-together, axis=2, kind="stable")[:, :, : self._query.k]
        named = np.concatenate([self._nearest, np.broadcast_to(words, cosines.shape)], axis=2)
        self._cosines = np.take_along_axis(together, order, axis=2)
        self._nearest = np.take_along_axis(named, order, axis=2)

    def _left_out(self, input_index: int, tokens: Sequence[Token]) -> npt.NDArray[np.bool_]:
        """Returns [occurrences, words]: True for an occurrence itself, and for the same word if only others are wanted."""
        result = np.zeros((len(self._occurrences), len(tokens)), dtype=bool)
        names = [folded(token.text) for token in tokens]
        for number, (word, where) in enumerate(self._occurrences):
            same, name = where.input_index == input_index, folded(self._query.words[word])
            for place, token in enumerate(tokens):
                itself = same and (token.segment, token.start) == (where.token.segment, where.token.start)
                result[number, place] = itself or (self._query.other_words and names[place] == name)
        return result

    def result(self) -> Neighbourhoods:
        """Returns the neighbours among the texts that came in. Raises InvalidArgument if none did."""
        if self._last is None:
            raise invalid_argument("inputs", NONE_ANSWERED)
        layers = self._last.layers
        found = []
        for number, (word, where) in enumerate(self._occurrences):
            nearest = {layer: tuple(self._of(place, number)) for place, layer in enumerate(layers)}
            found.append(WordNeighbours(self._query.words[word], where, nearest))
        return Neighbourhoods(layers, self._texts, self._searched, tuple(found), self._last.provenance)

    def _of(self, layer: int, number: int) -> Iterator[Neighbour]:
        for cosine, occurrence in zip(self._cosines[layer, number].tolist(), self._nearest[layer, number], strict=True):
            if np.isfinite(cosine):
                yield Neighbour(cosine, occurrence)


def _place(occurrence: Occurrence) -> tuple[int, int]:
    return occurrence.input_index, occurrence.token.start


def _directions(states: HiddenStates) -> npt.NDArray[np.float32]:
    """Returns the states of all words, each of length 1; [layers, words, hidden_size]."""
    values = states.states.astype(np.float32)
    return np.asarray(values / np.maximum(np.linalg.norm(values, axis=2, keepdims=True), SMALLEST_NORM), np.float32)


def folded(word: str) -> str:
    """Returns a word as it is compared: without letter case, and blanks around it."""
    return word.strip().casefold()


def nearest_neighbours(
    client: Client,
    inputs: TextOrPair | Iterable[TextOrPair],
    words: str | Iterable[str],
    *,
    k: SupportsIndex = 5,
    occurrences: SupportsIndex = 5,
    other_words: bool = False,
    model: str | Model | None = None,
    layers: Numbers | None = None,
    interventions: Interventions = (),
    reference_texts: str | Iterable[str] = (),
    truncate: bool = False,
    on_progress: OnTexts | None = None,
    on_rejected: OnRejected | None = None,
    timeout: float | None = None,
) -> Neighbourhoods:
    """Finds the `k` words of the texts whose states have the largest cosine with each of the first `occurrences` of `words`
    (100 words at most, letter case ignored), in each layer.

    A word's state is the mean of its pieces'. Other occurrences of the same word count, unless only `other_words` are
    wanted. The states travel to the client: those of texts that may hold a word twice, first to find it. Besides the
    texts, memory is for the occurrences, their neighbours and one text. A word that no text has is an error.
    `timeout` is for each of the two passes; `on_progress` and `on_rejected` are as in `describe_geometry`.
    """
    query = Query.checked(words, k, occurrences, other_words=other_words)
    texts = validation.texts_or_pairs("inputs", inputs)
    extract = partial(
        client.extract_hidden_states,
        model=model,
        layers=layers,
        unit="word",
        interventions=interventions,
        reference_texts=reference_texts,
        truncate=truncate,
        timeout=timeout,
    )
    found = Found(query)
    likely = [index for index, text in enumerate(texts) if query.may_hold(text)]
    if not likely:
        return found.search().result()  # The error of a word that no text has.
    # A rejected text is told about in the second pass, by its own index.
    with closing(extract([texts[index] for index in likely], on_rejected=lambda index, error: None)) as first:
        for states in first:
            if found.add(likely[states.input_index], states):
                break
    search = found.search()
    for states in answers_of(extract(texts, on_rejected=on_rejected), len(texts), on_progress):
        search.add(states)
    return search.result()
