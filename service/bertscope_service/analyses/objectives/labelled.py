"""Accuracy of predicted labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.classification import log_softmax
from bertscope_service.analyses.metrics import Metric
from bertscope_service.analyses.observers.predictions import LabelObserver, LossObserver
from bertscope_service.analyses.texts import read_inputs
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.observer import Observer
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import InvalidArgument

FIELD = "objective.classification.texts"


@dataclass(frozen=True, slots=True)
class LabelledText:
    """A text or pair and its right label: the label's name or its index."""

    text: str
    pair: str | None
    gold: str | int


@dataclass(frozen=True, slots=True)
class LabelledQuery:
    """A query for labelled texts; see bertscope.v1.LabelledTexts."""

    metrics: ClassVar[tuple[Metric, ...]] = (Metric.ACCURACY, Metric.LOSS)
    has_loss: ClassVar[bool] = True

    texts: tuple[LabelledText, ...]
    truncate: bool


class LabelledObjective:
    """One row for each text. Raises InvalidArgument for a text that is too long or empty, or whose label the model lacks."""

    metrics = LabelledQuery.metrics
    skipped = pieces = 0

    def __init__(self, query: LabelledQuery, tokenizer: TextTokenizer, labels: Sequence[str], model: str) -> None:
        """Tokenizes the texts. labels: names of the model's labels. model: its name, for errors."""
        sequences, observers = list[TokenSequence](), list[LabelObserver]()
        self.items = len(query.texts)
        self.truncated = 0
        inputs = [(entry.text, entry.pair) for entry in query.texts]
        texts = read_inputs(tokenizer, inputs, FIELD, ".input", truncate=query.truncate)
        for index, entry in enumerate(query.texts):
            gold = find_label(entry.gold, labels, f"{FIELD}[{index}]", model)
            tokenized = next(texts)
            sequences.append(tokenized.sequence)
            observers.append(LabelObserver(gold))
            self.truncated += bool(tokenized.truncated)
        self.sequences: Sequence[TokenSequence] = sequences
        self.observers: Sequence[Observer] = observers
        self.losses: Sequence[LossObserver] = observers
        self._golds = np.array([observer.gold for observer in observers])

    def later_observers(self, untouched: Sequence[NDArray[np.float32]]) -> Sequence[Observer]:
        return self.observers

    def measure(self, seen: Sequence[NDArray[np.float32]]) -> NDArray[np.float64]:
        """Returns [2, texts]: 1 if the gold label scores highest (the first of equals), and its -ln P, nats."""
        logs = log_softmax(seen)
        losses = -logs[np.arange(self.items), self._golds]
        return np.stack([logs.argmax(axis=1) == self._golds, losses.clip(min=0.0)])


def find_label(gold: str | int, labels: Sequence[str], field: str, model: str, *, name_field: str = ".label") -> int:
    """Returns the index of a label, from 0 to the number of labels - 1. Raises InvalidArgument if the model lacks it;
    `name_field` is the part of `field` that holds a name."""
    if isinstance(gold, int):
        if gold >= len(labels):
            message = f"label_index {gold} is out of range: {model} has labels 0 to {len(labels) - 1}"
            raise InvalidArgument(f"{field}.label_index", message, "LABEL_OUT_OF_RANGE", model=model)
        return gold
    found = [index for index, label in enumerate(labels) if label == gold]
    if len(found) != 1:
        what = "the name of several labels" if found else "not one of the labels"
        shown = ", ".join(labels[:20]) + (", ..." if len(labels) > 20 else "")
        remedy = "use label_index" if found and name_field else "name them apart" if found else "use one of these"
        message = f"{field}{name_field} is {what} of {model}: {shown}; {remedy}"
        raise InvalidArgument(f"{field}{name_field}", message, "LABEL_AMBIGUOUS" if found else "UNKNOWN_LABEL", model=model)
    return found[0]
