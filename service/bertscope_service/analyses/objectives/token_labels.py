"""Labels of words: entity F1, token accuracy and loss.

Entity F1 and token accuracy are ratios of sums over all texts, R = sum(a) / sum(b). A text's value is the ratio's linearised
value, R + (a - R b) / mean(b) (Deville 1999): the mean over the texts is R, and their spread that of R.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.classification import log_softmax
from bertscope_service.analyses.label_schemes import Mention, Scheme, mentions_of, scheme_of
from bertscope_service.analyses.metrics import Metric
from bertscope_service.analyses.objectives.labelled import find_label
from bertscope_service.analyses.observers.predictions import LossObserver
from bertscope_service.analyses.observers.token_labels import TokenLabelObserver
from bertscope_service.analyses.texts import read_inputs
from bertscope_service.analyses.token_classification import ReadWords, find_words
from bertscope_service.analyses.words import Span
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.observer import Observer
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import InvalidArgument

FIELD = "objective.token_classification.texts"


@dataclass(frozen=True, slots=True)
class LabelledSentence:
    """A text or pair, its words in order, and the name of each one's right label."""

    input: tuple[str, str | None]
    words: tuple[Span, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True)
class TokenLabelsQuery:
    """A query for labelled words; see bertscope.v1.LabelledSentences."""

    has_loss: ClassVar[bool] = True

    texts: tuple[LabelledSentence, ...]
    truncate: bool

    @cached_property
    def metrics(self) -> tuple[Metric, ...]:
        """Entity F1 only if the names of the right labels say what a mention is."""
        names = sorted({label for text in self.texts for label in text.labels})
        mentions = () if scheme_of(names) is Scheme.NONE else (Metric.ENTITY_F1,)
        return (*mentions, Metric.TOKEN_ACCURACY, Metric.LOSS)


class TokenLabelsObjective:
    """One row for each text. Raises InvalidArgument for a text that is too long or empty, of which no word is read, or with a
    label that the model lacks."""

    skipped = pieces = 0

    def __init__(self, query: TokenLabelsQuery, tokenizer: TextTokenizer, labels: Sequence[str], model: str) -> None:
        """Tokenizes the texts. labels: names of the model's labels. model: its name, for errors."""
        self.metrics = query.metrics
        self.items = len(query.texts)
        self.truncated = 0
        self._labels = labels
        self._texts: list[ReadWords] = []
        self._gold: list[NDArray[np.int64]] = []
        self.sequences: list[TokenSequence] = []
        observers: list[TokenLabelObserver] = []
        inputs, marked = [text.input for text in query.texts], [text.words for text in query.texts]
        read = read_inputs(tokenizer, inputs, FIELD, ".input", truncate=query.truncate, words=marked)
        for index, (given, tokenized) in enumerate(zip(query.texts, read, strict=True)):
            field = f"{FIELD}[{index}]"
            golds = [find_label(name, labels, f"{field}.words[{at}]", model) for at, name in enumerate(given.labels)]
            words = find_words(tokenized, given.words, tokenizer)
            if not words.read:
                message = f"{field} has no word that is read; mark one with a piece of its own, before the text is cut"
                raise InvalidArgument(f"{field}.words", message, "NO_SPAN")
            own = [gold for gold, place in zip(golds, words.positions, strict=True) if place is not None]
            observers.append(TokenLabelObserver(words.read, tuple(own)))
            self.sequences.append(tokenized.sequence)
            self._texts.append(words)
            self._gold.append(np.array(own, dtype=np.int64))
            self.truncated += bool(tokenized.truncated)
        self.observers: Sequence[Observer] = observers
        self.losses: Sequence[LossObserver] = observers
        self._right = [self._mentions(*each) for each in zip(self._texts, self._gold, strict=True)]

    def later_observers(self, untouched: Sequence[NDArray[np.float32]]) -> Sequence[Observer]:
        return self.observers

    def measure(self, seen: Sequence[NDArray[np.float32]]) -> NDArray[np.float64]:
        """Returns [metrics, texts]; equal scores count as the first label."""
        words = np.array([len(gold) for gold in self._gold])
        logs, gold = log_softmax(np.concatenate(seen)), np.concatenate(self._gold)
        best, ends = logs.argmax(axis=1), np.cumsum(words)[:-1]
        losses = [part.mean() for part in np.split(-logs[np.arange(len(gold)), gold].clip(max=0.0), ends)]
        correct = np.array([part.sum() for part in np.split(best == gold, ends)])
        values = [linearised(correct, words), np.array(losses)]
        if Metric.ENTITY_F1 in self.metrics:
            found = [self._mentions(*each) for each in zip(self._texts, np.split(best, ends), strict=True)]
            both = np.array([len(own & right) for own, right in zip(found, self._right, strict=True)])
            sizes = np.array([len(own) + len(right) for own, right in zip(found, self._right, strict=True)])
            values.insert(0, linearised(2 * both, sizes))
        return np.stack(values)

    def _mentions(self, text: ReadWords, labels: NDArray[np.int64]) -> set[Mention]:
        """Returns the mentions that labels make of a text's words; one that is not read parts them, as do a pair's texts."""
        numbers = iter(labels.tolist())
        names: list[str | None] = []
        for index, place in enumerate(text.positions):
            if index and text.words[index].segment != text.words[index - 1].segment:
                names.append(None)
            names.append(None if place is None else self._labels[next(numbers)])
        return set(mentions_of(names))


def linearised(above: NDArray[np.int64], below: NDArray[np.int64]) -> NDArray[np.float64]:
    """Returns values whose mean is the ratio of two arrays' sums, and whose spread is that of the ratio; zeros for 0 / 0."""
    total = int(below.sum())
    if not total:
        return np.zeros(len(below))
    ratio = float(above.sum()) / total
    values: NDArray[np.float64] = ratio + (above - ratio * below) * (len(below) / total)
    return values
