"""Computes how well one vector could stand for a word: maximum explainable variance, from a sample of its occurrences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
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
from bertscope.values.display import ShownAsTable, counted, record
from bertscope.values.documents import fields_of
from bertscope.values.interventions import Interventions
from bertscope.values.messages import Numbers
from bertscope.values.results import Provenance
from bertscope.values.validation import TextOrPair

from bertscope_workbench.analyses.neighbours import NONE_ANSWERED, folded
from bertscope_workbench.analyses.streams import answers_of

__all__ = ["ExplainableVariance", "WordVariance", "explainable_variance"]

Vector = npt.NDArray[np.float64]

MAX_WORDS = 1000
"""Words of one call."""
SAMPLED, BASELINE = 100, 1000
"""Occurrences of a word, and of any words, that are kept: drawn at random where there are more."""
DRAWS = 20
"""Draws of as many random words as a word has vectors, whose shares are its baseline."""


@record(eq=False)
class WordVariance:
    """The share of one word's states along their first singular direction."""

    vectors: int
    """The occurrences of the word."""
    sampled: int
    """The occurrences that the shares are of, at most SAMPLED."""
    shares: Vector
    """[layers], 0 to 1."""
    baseline: Vector
    """[layers], 0 to 1: the share of as many random words, mean over DRAWS draws."""

    @property
    def adjusted(self) -> Vector:
        """[layers]: the shares less those of as many random words. Few vectors have a large share whatever they are."""
        return self.shares - self.baseline


@dataclass(frozen=True, eq=False, repr=False)
class ExplainableVariance(ShownAsTable):
    """The maximum explainable variance of words, by layer (Ethayarajh 2019, section 3.3). Compared by identity."""

    layers: tuple[int, ...]
    """The layers, 0 the embeddings."""
    texts: int
    """The texts read."""
    words: Mapping[str, WordVariance]
    """The requested words of two occurrences or more, in the order of the request."""
    baseline: Vector
    """[layers]: the share of the first singular direction of random words, 0 to 1."""
    baseline_vectors: int
    """The random words, at most BASELINE."""
    provenance: Provenance
    """Provenance of the states."""

    def _heading(self) -> str:
        asked = f"{counted('word', len(self.words))}, {counted('text', self.texts)}"
        return f"<ExplainableVariance: {asked}, {self.provenance.model}>"

    def share(self, word: str, *, adjusted: bool = False) -> Vector:
        """Returns [layers]: the share of a word's states along their first singular direction; `adjusted`: less that of as many
        random words. Raises KeyError for a word that was not requested, or that occurs less than twice."""
        names = {folded(name): name for name in self.words}
        if folded(word) not in names:
            raise KeyError(f"no variance of {word!r}: it was not requested, or the texts have it less than twice")
        found = self.words[names[folded(word)]]
        return found.adjusted if adjusted else found.shares

    def mean(self, *, adjusted: bool = False, occurrences: int = 5) -> Vector:
        """Returns [layers]: the mean over the words of so many occurrences, NaN without any; `adjusted` as in `share`."""
        words = [each for each in self.words.values() if each.vectors >= occurrences]
        chosen = [each.adjusted if adjusted else each.shares for each in words]
        return np.mean(chosen, axis=0) if chosen else np.full(len(self.layers), math.nan)

    _table = named("word", "vectors", "layer", "share", "share_adjusted")

    def _rows(self) -> Iterable[tuple[Any, ...]]:
        """Returns a row for each word and layer: word, vectors, layer, share and share_adjusted."""
        return [
            (name, each.vectors, layer, share, adjusted)
            for name, each in self.words.items()
            for layer, share, adjusted in zip(self.layers, each.shares.tolist(), each.adjusted.tolist(), strict=True)
        ]


def variance_document(found: ExplainableVariance) -> dict[str, Any]:
    """Returns the shares in JSON types."""
    names = "vectors", "sampled", "shares", "baseline"
    words = [{"word": name, **fields_of(each, *names)} for name, each in found.words.items()]
    return fields_of(found, "baseline", "baseline_vectors") | {"words": words}


class Reservoir:
    """A uniform sample of vectors of which any number comes in (Vitter 1985, algorithm R)."""

    def __init__(self, limit: int, seed: int) -> None:
        self.seen = 0
        self.vectors: list[npt.NDArray[np.float32]] = []
        self._limit, self._random = limit, np.random.default_rng(seed)

    def add(self, vector: npt.NDArray[np.float32]) -> None:
        """Takes a vector [layers, hidden_size] in with the same probability as any other so far."""
        self.seen += 1
        if len(self.vectors) < self._limit:
            self.vectors.append(vector.copy())
            return
        place = int(self._random.integers(self.seen))
        if place < self._limit:
            self.vectors[place] = vector.copy()

    def stacked(self) -> npt.NDArray[np.float32]:
        """Returns the vectors, [layers, vectors, hidden_size]."""
        return np.stack(self.vectors, axis=1)


def first_shares(vectors: npt.NDArray[np.float32]) -> Vector:
    """Returns [layers]: the share of the squared lengths of [layers, vectors, hidden_size] along the first singular direction;
    they are not centred."""
    found = []
    for layer in vectors.astype(np.float64):
        products = layer @ layer.T if len(layer) < layer.shape[1] else layer.T @ layer
        total = float(np.trace(products))
        found.append(np.linalg.eigvalsh(products)[-1] / total if total > 0 else math.nan)
    return np.array(found)


def baselines(vectors: npt.NDArray[np.float32], sizes: Iterable[int], seed: int) -> dict[int, Vector]:
    """Returns, for each number of vectors, the mean share of DRAWS draws of so many of some, all if these are fewer."""
    random, most = np.random.default_rng(seed), vectors.shape[1]
    found: dict[int, Vector] = {}
    for size in sorted(set(sizes)):
        drawn = (random.choice(most, min(size, most), replace=False) for _ in range(DRAWS))
        found[size] = np.mean([first_shares(vectors[:, places]) for places in drawn], axis=0)
    return found


class Samples:
    """The samples of each word, and of any word, as texts come in. `seed` decides which are kept."""

    def __init__(self, words: str | Iterable[str], seed: object) -> None:
        self._names: dict[str, str] = {}
        named = validation.not_empty("words", validation.texts("words", words))
        if len(named) > MAX_WORDS:
            raise invalid_argument("words", f"are {len(named)}; ask about {MAX_WORDS} at a time")
        for index, word in enumerate(named):
            if folded(word) in self._names:
                raise invalid_argument(f"words[{index}]", "is there twice; letter case is ignored")
            self._names[folded(word)] = word
        self._seed = start = validation.uint32("seed", seed)
        self._words = {word: Reservoir(SAMPLED, start + number) for number, word in enumerate(self._names, start=1)}
        self._any = Reservoir(BASELINE, start)
        self._texts = 0
        self._last: HiddenStates | None = None

    def add(self, states: HiddenStates) -> None:
        """Adds the words of a text."""
        self._texts, self._last = self._texts + 1, states
        values = states.states.astype(np.float32)
        for row, token in enumerate(states.tokens):
            if not token.special:
                self._any.add(values[:, row])
                own = self._words.get(folded(token.text))
                if own is not None:
                    own.add(values[:, row])

    def result(self) -> ExplainableVariance:
        """Returns the shares. Raises InvalidArgument if no text with a word came in."""
        if self._last is None or not self._any.seen:
            raise invalid_argument("inputs", NONE_ANSWERED)
        chosen = {name: each for name, each in self._words.items() if each.seen > 1}
        every = self._any.stacked()
        random = baselines(every, (len(each.vectors) for each in chosen.values()), self._seed)
        words = {
            self._names[name]: WordVariance(
                each.seen, len(each.vectors), first_shares(each.stacked()), random[len(each.vectors)]
            )
            for name, each in chosen.items()
        }
        source = self._last.provenance
        shares = first_shares(every)
        return ExplainableVariance(self._last.layers, self._texts, words, shares, len(self._any.vectors), source)


def explainable_variance(
    client: Client,
    inputs: TextOrPair | Iterable[TextOrPair],
    words: str | Iterable[str],
    *,
    seed: SupportsIndex = 0,
    model: str | Model | None = None,
    layers: Numbers | None = None,
    interventions: Interventions = (),
    reference_texts: str | Iterable[str] = (),
    truncate: bool = False,
    on_progress: OnTexts | None = None,
    on_rejected: OnRejected | None = None,
    timeout: float | None = None,
) -> ExplainableVariance:
    """Computes the maximum explainable variance of words (Ethayarajh 2019, section 3.3): the share of the first singular
    direction of a word's states in different texts, and that of random words to take off it.

    `words` are 1,000 at most, letter case ignored. The states travel to the client, which keeps up to 100 occurrences of
    each word, and 1,000 of any: where there are more, a random sample, the same for the same `seed`. `timeout` is for
    the whole call; `on_progress` and `on_rejected` are as in `describe_geometry`.
    """
    samples = Samples(words, seed)
    texts = validation.texts_or_pairs("inputs", inputs)
    streamed = client.extract_hidden_states(
        texts,
        model=model,
        layers=layers,
        unit="word",
        interventions=interventions,
        reference_texts=reference_texts,
        truncate=truncate,
        on_rejected=on_rejected,
        timeout=timeout,
    )
    for states in answers_of(streamed, len(texts), on_progress):
        samples.add(states)
    return samples.result()
