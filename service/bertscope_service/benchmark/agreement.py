"""Agreement between the predictions of two models at the same masks or on the same texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.analyses.label_distributions import Labelling, label_observers
from bertscope_service.analyses.metrics import Bootstrap
from bertscope_service.analyses.objectives.masked_lm import choose, maskable_words
from bertscope_service.analyses.observers.reading import Reading
from bertscope_service.analyses.texts import check_finite, masked
from bertscope_service.benchmark.timings import interval_of_mean
from bertscope_service.checkpoints.tokenized_text import TokenizedText, check_length
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import BatchEdits
from bertscope_service.encoders.observer import Observer, Readout
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.state import State
from bertscope_service.errors import InvalidArgument

FIELD = "agreement_texts"
MASK_SHARE = 0.15
SHARED_SHARE = 0.5
"""Vocabularies that share a smaller part of the smaller vocabulary than this can't be compared."""

COMPARED_PLACES = 64
"""Number of distributions that are compared at a time, to limit memory."""

Logs = NDArray[np.float32]
"""Logarithms of probabilities, [places, pieces or labels]."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """The agreement of two models; see bertscope.v1.Agreement."""

    top_1: float
    top_k: float
    k: int
    divergence: float
    low: float
    high: float
    places: int


@dataclass(frozen=True, slots=True)
class DistributionObserver(Observer):
    """Reads log-probabilities of the whole vocabulary at some positions P of a row: float32 [P, vocabulary]."""

    positions: tuple[int, ...]

    @classmethod
    def run(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        read = Reading(encoder, [observer.positions for observer in observers])
        read.advance(state, edits)
        logs = torch.cat([logits.log_softmax(dim=-1) for _, logits in read.logits(state)])
        return Readout((logs,), lambda arrays: read.split(arrays[0]))


@dataclass(frozen=True, slots=True)
class Question:
    """One text to compare: its sequence and its observer for every model, and the number of compared places.

    `labelling` is None where pieces are predicted.
    """

    sequences: Sequence[TokenSequence]
    observers: Sequence[Observer]
    places: int
    labelling: Labelling | None = None


def mask_questions(texts: Sequence[str], tokenizers: Sequence[TextTokenizer], seed: int) -> list[Question]:
    """Builds questions for masked-LMs: every mask of a text, or chosen words of it, the same for all models.

    Each tokenizer has a mask token. Only words that all models write in the same pieces are chosen. Raises InvalidArgument for
    a text that is too long for a model, has neither masks nor such words, or has masks that some models don't recognise.
    """
    return [_mask_question(index, text, tokenizers, seed) for index, text in enumerate(texts)]


def label_questions(
    texts: Sequence[str], tokenizers: Sequence[TextTokenizer], labelling: Labelling, labels: Sequence[str]
) -> list[Question]:
    """Builds questions for models with the same labels: those of each text, or of each of its words. Raises InvalidArgument
    for a text that is too long for a model, or of which the models read no common word."""
    questions = []
    for index, text in enumerate(texts):
        read = [_read(tokenizer, text, index) for tokenizer in tokenizers]
        observers = label_observers(labelling, read, tokenizers, f"{FIELD}[{index}]")
        places = labelling.places(observers[0], labels)
        questions.append(Question([tokenized.sequence for tokenized in read], observers, places, labelling))
    return questions


def _mask_question(index: int, text: str, tokenizers: Sequence[TextTokenizer], seed: int) -> Question:
    read = [_read(tokenizer, text, index) for tokenizer in tokenizers]
    places = [
        tuple(place for place, token in enumerate(tokenized.sequence.ids) if token == tokenizer.mask_id)
        for tokenized, tokenizer in zip(read, tokenizers, strict=True)
    ]
    if len(set(map(len, places))) > 1:
        message = f"{FIELD}[{index}] has a mask that only some of the models know; write [MASK]"
        raise InvalidArgument(f"{FIELD}[{index}]", message, "MASKS_DIFFER")
    sequences = [tokenized.sequence for tokenized in read]
    if not places[0]:
        places = _chosen_words(index, read, tokenizers, seed)
        sequences = [masked(*each) for each in zip(sequences, places, tokenizers, strict=True)]
    return Question(sequences, [DistributionObserver(positions) for positions in places], len(places[0]))


def _chosen_words(
    index: int, read: Sequence[TokenizedText], tokenizers: Sequence[TextTokenizer], seed: int
) -> list[tuple[int, ...]]:
    """Chooses some words of a text. Returns the positions of their pieces for each model."""
    words = [_words(*each) for each in zip(read, tokenizers, strict=True)]
    common = sorted(set.intersection(*map(set, words)))
    if not common:
        message = f"{FIELD}[{index}] has no word that all models can write in the same pieces; leave it out"
        raise InvalidArgument(f"{FIELD}[{index}]", message, "NO_WORD")
    chosen = [common[number] for number in choose(len(common), MASK_SHARE, seed, index)]
    return [tuple(place for word in chosen for place in own[word]) for own in words]


def _words(tokenized: TokenizedText, tokenizer: TextTokenizer) -> dict[tuple[int, int, tuple[str, ...]], tuple[int, ...]]:
    """Returns the positions of the pieces of each word, by the word's span in the text and its pieces."""
    return {
        (
            tokenized.span(places[0])[0],
            tokenized.span(places[-1])[1],
            tuple(tokenizer.piece(tokenized.sequence.ids[place]) for place in places),
        ): places
        for places in maskable_words(tokenized, tokenizer)
    }


def _read(tokenizer: TextTokenizer, text: str, index: int) -> TokenizedText:
    field, tokenized = f"{FIELD}[{index}]", tokenizer.encode(text)
    check_length(tokenized, field, tokenizer.max_tokens, cuttable=False)
    if all(which is None for which in tokenized.encoding.sequence_ids):
        raise InvalidArgument(field, f"{field} holds no token of a model's vocabulary; write some text", "EMPTY_TEXT")
    return tokenized


@dataclass(frozen=True, slots=True)
class Shared:
    """The pieces that two vocabularies share: their ids in each, int64 [n]; None if the vocabularies are equal."""

    baseline: NDArray[np.int64] | None = None
    model: NDArray[np.int64] | None = None

    def fit(self, baseline: Logs, model: Logs) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Restricts both distributions to the shared pieces and renormalises them."""
        return _restrict(baseline, self.baseline), _restrict(model, self.model)


def shared_pieces(baseline: TextTokenizer, model: TextTokenizer, sizes: tuple[int, int], k: int) -> Shared:
    """Finds the pieces that two vocabularies share. `sizes` are the sizes of both models' output.

    Raises InvalidArgument if less than half of the smaller vocabulary is shared, or fewer pieces than `k`.
    """
    first, second = baseline.backend.get_vocab(), model.backend.get_vocab()
    if first == second and sizes[0] == sizes[1]:
        return Shared()
    pairs = sorted((number, second[piece]) for piece, number in first.items() if piece in second)
    pairs = [pair for pair in pairs if pair[0] < sizes[0] and pair[1] < sizes[1]]
    smaller = min(len(first), len(second))
    if len(pairs) < max(k, SHARED_SHARE * smaller):
        message = (
            f"the models' vocabularies share {len(pairs)} pieces of {smaller}, too few to compare predictions; "
            f"leave {FIELD} out, or take models of one vocabulary"
        )
        raise InvalidArgument(FIELD, message, "VOCABULARIES_DIFFER")
    both = np.array(pairs, dtype=np.int64)
    return Shared(both[:, 0], both[:, 1])


def _restrict(logs: Logs, ids: NDArray[np.int64] | None) -> NDArray[np.float64]:
    """Keeps the given ids and renormalises. Renormalises all ids too: in float32 their sum is not quite 1."""
    some = (logs if ids is None else logs[:, ids]).astype(np.float64)
    restricted: NDArray[np.float64] = some - np.log(np.exp(some).sum(axis=1, keepdims=True))
    return restricted


class Tally:
    """Accumulates, text by text, the agreement of one model's predictions with the baseline's."""

    def __init__(self, k: int, shared: Shared) -> None:
        self._k = k
        self._shared = shared
        self._places: list[NDArray[np.float64]] = []

    def add(self, baseline: Sequence[Logs], model: Sequence[Logs]) -> None:
        """Adds the distributions of some texts, [places, n] each. Raises FailedPrecondition if they are not finite."""
        for first, second in zip(baseline, model, strict=True):
            check_finite((first, second))
            parts = [slice(begin, begin + COMPARED_PLACES) for begin in range(0, len(first), COMPARED_PLACES)]
            compared = [compare(*self._shared.fit(first[part], second[part]), self._k) for part in parts]
            self._places.append(np.concatenate(compared))

    def agreement(self, bootstrap: Bootstrap) -> Agreement:
        """Returns the means over all places. The interval resamples texts, or places if there is a single text."""
        means = np.concatenate(self._places).mean(axis=0)
        texts = self._places if len(self._places) > 1 else [place[None] for place in self._places[0]]
        totals = np.array([text[:, 2].sum() for text in texts])
        sizes = np.array([float(len(text)) for text in texts])
        low, high = interval_of_mean(totals, sizes, bootstrap)
        top_1, top_k, divergence = means.tolist()
        return Agreement(top_1, top_k, self._k, divergence, low, high, int(sizes.sum()))


def compare(baseline: NDArray[np.float64], model: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """Compares log-probabilities at each place, both [places, n]. Returns [places, 3].

    The columns are: 1 if both have the same likeliest entry, the share of the baseline's k likeliest entries that are among
    the model's k likeliest, and KL(baseline || model) in nats.
    """
    same = baseline.argmax(axis=1) == model.argmax(axis=1)
    first, second = (np.argpartition(-logs, k - 1, axis=1)[:, :k] for logs in (baseline, model))
    common = (first[:, :, None] == second[:, None]).sum(axis=(1, 2))
    divergence = (np.exp(baseline) * (baseline - model)).sum(axis=1)
    # Equal distributions differ by rounding.
    return np.stack([same, common / k, divergence.clip(min=0.0)], axis=1)


def distributions(question: Question, result: NDArray[np.float32]) -> Logs:
    """Returns a row's result as log-probabilities [places, n]."""
    return result if question.labelling is None else question.labelling.logs(result).astype(np.float32)
