"""Retrieves the translation of each sentence by its states: vectors of sentences, nearest neighbours, and accuracy by layer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from bertscope import BertscopeError, Client, InvalidArgument, Model
from bertscope.errors import invalid_argument
from bertscope.questions.representations.states import HiddenStates
from bertscope.rpc.splitting import OnRejected, located
from bertscope.values import validation
from bertscope.values.columns import named
from bertscope.values.display import ShownAsTable, record
from bertscope.values.documents import fields_of
from bertscope.values.intervals import Interval, wilson_interval
from bertscope.values.messages import Numbers
from bertscope.values.results import Provenance

__all__ = ["RetrievedSentences", "retrieve_sentences"]

SentencePooling = Literal["mean", "first"]
POOLINGS = {name: name for name in get_args(SentencePooling)}
CELLS = 2**20
"""Distances that are in memory at a time."""
TIE = 1e-6
"""Two squared distances are equal if they differ by at most this part of the two vectors' squared lengths."""

Vectors = npt.NDArray[np.float32]
Whole = npt.NDArray[np.int64]


@record(eq=False)
class RetrievedSentences(ShownAsTable):
    """The nearest sentence of each by layer, in both directions. Compared by identity, as numpy arrays have no truth value.

    Direction "forward" looks for the target of each source, "backward" for the source of each target.
    """

    _table = named("layer", "direction", "pairs", "accuracy", "low", "high", "mean_reciprocal_rank", "ties")

    layers: tuple[int, ...]
    """Layer of each row: 0 is the embeddings, k the output of layer k - 1."""
    pairs: tuple[int, ...]
    """Index among the call's pairs of each pair that was compared: those with a rejected text are left out."""
    forward: Whole
    """[layers, pairs]: index among the call's pairs of the target nearest to a source, the first of equally near ones."""
    backward: Whole
    """[layers, pairs]: the same of the source that is nearest to a target."""
    forward_ranks: Whole
    """[layers, pairs]: rank of the right target, from 1; behind all that are as near."""
    backward_ranks: Whole
    """[layers, pairs]: rank of the right source."""
    forward_ties: Whole
    """[layers]: sources that have another target as near as the right one."""
    backward_ties: Whole
    """[layers]: targets that have another source as near as the right one."""
    centred: bool
    """True if each list's mean was subtracted."""
    pooling: str
    """"mean" of all pieces but special ones, or "first", [CLS]."""
    truncated_texts: int
    """Texts of compared pairs that were cut."""
    provenance: Provenance
    """Provenance of the states."""

    @property
    def chance(self) -> float:
        """The accuracy of a guess, 1 / pairs."""
        return 1 / len(self.pairs)

    def accuracy(self, *, backward: bool = False) -> npt.NDArray[np.float64]:
        """Returns [layers]: the share of sentences whose translation is nearer than all others; a tie is a miss."""
        return np.asarray((self._ranks(backward) == 1).mean(axis=1))

    def intervals(self, *, backward: bool = False, confidence: float = 0.95) -> list[Interval]:
        """Returns Wilson's interval of each layer's accuracy. Raises InvalidArgument for a confidence outside 0.5 to 0.999."""
        found = (self._ranks(backward) == 1).sum(axis=1)
        return [wilson_interval(int(count), len(self.pairs), confidence=confidence) for count in found]

    def mean_reciprocal_rank(self, *, backward: bool = False) -> npt.NDArray[np.float64]:
        """Returns [layers]: the mean of 1 / rank."""
        return np.asarray((1 / self._ranks(backward)).mean(axis=1))

    def _ranks(self, backward: bool) -> Whole:
        return self.backward_ranks if backward else self.forward_ranks

    def _rows(self) -> Iterable[tuple[Any, ...]]:
        """Returns a row for each layer and direction: layer, direction, pairs, accuracy, low, high, mean_reciprocal_rank,
        ties."""
        for direction, ties in (("forward", self.forward_ties), ("backward", self.backward_ties)):
            back = direction == "backward"
            found = self.accuracy(backward=back), self.intervals(backward=back), self.mean_reciprocal_rank(backward=back), ties
            for layer, accuracy, (low, high), reciprocal, tied in zip(self.layers, *found, strict=True):
                yield layer, direction, len(self.pairs), float(accuracy), low, high, float(reciprocal), int(tied)


def retrieval_document(found: RetrievedSentences) -> dict[str, Any]:
    """Returns the result in JSON types. "nearest" has, for each layer and direction, the index of the nearest sentence to each
    of `pairs`."""
    names = "provenance", "pairs", "truncated_texts", "pooling", "centred", "chance"
    return fields_of(found, *names) | {"layers": found.records(), "nearest": fields_of(found, "forward", "backward")}


def parallel_sentences(sources: Iterable[str], targets: Iterable[str]) -> tuple[list[str], list[str]]:
    """Returns both lists. Raises InvalidArgument for lists of unequal length, or of fewer than two sentences."""
    one, other = validation.texts("sources", sources), validation.texts("targets", targets)
    if len(one) != len(other):
        description = f"has {len(other)} sentences, sources {len(one)}: sentence k must be the translation of source k"
        raise invalid_argument("targets", description)
    if len(one) < 2:
        raise invalid_argument("sources", f"has {len(one)} sentences: retrieval needs two pairs or more")
    return one, other


def sentence_vector(states: HiddenStates) -> Vectors | None:
    """Returns [layers, hidden_size]: the state of a text of one row, or the mean over all pieces but special ones.

    None for a text without such pieces.
    """
    if states.unit == "text":
        return np.asarray(states.states[:, 0], dtype=np.float32)
    kept = [row for row, token in enumerate(states.tokens) if not token.special]
    return states.states[:, kept].mean(axis=1, dtype=np.float64).astype(np.float32) if kept else None


def retrieved(
    pairs: Sequence[int],
    sources: Sequence[HiddenStates],
    vectors: tuple[Sequence[Vectors], Sequence[Vectors]],
    *,
    centred: bool,
    truncated_texts: int,
) -> RetrievedSentences:
    """Returns the nearest sentences by Euclidean distance, layer by layer (Pires et al. 2019, section 5).

    The paper adds the mean difference of translations to a source before it looks for the nearest target. That subtracts each
    language's mean, which is what `centred` does. `vectors` are [layers, hidden_size] of each source, and of each target.
    """
    if len(pairs) < 2:
        raise invalid_argument("sources", f"{len(pairs)} pairs are left after rejected texts: retrieval needs two or more")
    first, indices, found = sources[0], np.array(pairs), []
    for place in range(len(first.layers)):
        one, other = (np.stack([vector[place] for vector in side]).astype(np.float64) for side in vectors)
        if centred:
            one, other = one - one.mean(axis=0), other - other.mean(axis=0)
        found.append((*nearest(one, other), *nearest(other, one)))
    answers, ranks, ties, back_answers, back_ranks, back_ties = (np.stack(column) for column in zip(*found, strict=True))
    return RetrievedSentences(
        layers=first.layers,
        pairs=tuple(pairs),
        forward=indices[answers],
        backward=indices[back_answers],
        forward_ranks=ranks,
        backward_ranks=back_ranks,
        forward_ties=ties,
        backward_ties=back_ties,
        centred=centred,
        pooling="mean" if first.unit == "piece" else "first",
        truncated_texts=truncated_texts,
        provenance=first.provenance,
    )


def nearest(sources: npt.NDArray[np.float64], targets: npt.NDArray[np.float64]) -> tuple[Whole, Whole, npt.NDArray[np.int64]]:
    """Returns, for sources and targets [sentences, hidden_size], the place of the nearest target of each source, the rank of
    the one at its own place, and how many sources have another target as near as that one.

    A part of the distances is in memory at a time, 2^20.
    """
    count = len(sources)
    lengths = (targets**2).sum(axis=1)
    answers, ranks, ties = np.empty(count, np.int64), np.empty(count, np.int64), 0
    step = max(1, CELLS // count)
    for start in range(0, count, step):
        part = sources[start : start + step]
        rows, places = np.arange(len(part)), np.arange(start, start + len(part))
        own = (part**2).sum(axis=1)[:, None]
        distances = own + lengths - 2 * part @ targets.T
        reach = TIE * (own + lengths)
        answers[places] = (distances <= distances.min(axis=1, keepdims=True) + reach).argmax(axis=1)
        right = distances[rows, places][:, None]
        near = distances <= right + reach
        equal = near & (distances >= right - reach)
        ranks[places] = near.sum(axis=1)
        ties += int((equal.sum(axis=1) > 1).sum())
    return answers, ranks, np.array(ties)


def retrieve_sentences(
    client: Client,
    sources: Iterable[str],
    targets: Iterable[str],
    *,
    model: str | Model | None = None,
    layers: Numbers | None = None,
    pooling: SentencePooling = "mean",
    centred: bool = True,
    truncate: bool = False,
    on_rejected: OnRejected | None = None,
    timeout: float | None = None,
) -> RetrievedSentences:
    """Finds for each sentence its nearest neighbour in the other list, by layer, in both directions (Pires et al. 2019).

    `targets[k]` is the translation of `sources[k]`. A sentence's vector is the "mean" of its pieces' states without special
    tokens, or the "first" state, [CLS]. Distances are Euclidean; `centred` subtracts each list's mean vector first.
    `layers` are all unless set: 0 is the embeddings, k the output of layer k - 1. The states travel; one vector of each
    sentence is kept, layers * hidden_size * 4 bytes. Both lists are streamed, one after the other, each within one `timeout`.

    A text that the server rejects (too long, empty), or that has special tokens only, is an error of `sources[k]` or
    `targets[k]`, k its pair, unless `on_rejected` takes k and the error: then the pair is left out.
    Raises InvalidArgument for lists of unequal length and for fewer than two pairs.
    """
    one, other = parallel_sentences(sources, targets)
    of_text = validation.choice("pooling", pooling, POOLINGS) == "first"
    centre = validation.flag("centred", centred)
    places: Sequence[int] = range(len(one))
    sides: list[dict[int, Vectors]] = []
    truncated: list[set[int]] = []
    first: list[HiddenStates] = []
    for name, texts in (("sources", one), ("targets", other)):
        vectors: dict[int, Vectors] = {}
        cut: set[int] = set()
        asked = places

        def leave_out(index: int, error: InvalidArgument, name: str = name, asked: Sequence[int] = asked) -> None:
            located(error, asked, name)
            if on_rejected is not None:
                on_rejected(asked[index], error)

        states = client.extract_hidden_states(
            [texts[place] for place in asked],
            model=model,
            layers=layers,
            unit="text" if of_text else "piece",
            pooling="first" if of_text else None,
            truncate=truncate,
            on_rejected=None if on_rejected is None else leave_out,
            timeout=timeout,
        )
        try:
            with closing(states):
                for text in states:
                    place = asked[text.input_index]
                    vector = sentence_vector(text)
                    if vector is None:
                        empty = invalid_argument(f"{name}[{place}]", "has special tokens only: leave its pair out")
                        if on_rejected is None:
                            raise empty
                        on_rejected(place, empty)
                        continue
                    vectors[place] = vector
                    if text.truncated_tokens:
                        cut.add(place)
                    if not first:
                        first.append(text)
        except BertscopeError as error:
            located(error, asked, name)
            raise
        places = sorted(vectors)
        sides.append(vectors)
        truncated.append(cut)
        if len(places) < 2:
            raise invalid_argument(name, f"{len(places)} pairs are left: retrieval needs two or more")
    return retrieved(
        places,
        first,
        ([sides[0][place] for place in places], [sides[1][place] for place in places]),
        centred=centre,
        truncated_texts=sum(len(cut.intersection(places)) for cut in truncated),
    )
