"""Labels of a multi-label model, of which any number may hold for a text: F1, exact match and loss.

F1 is of the labels of all texts together, a ratio of sums; a text's value is the ratio's linearised value, as of entity F1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.classification import log_sigmoid
from bertscope_service.analyses.metrics import Metric
from bertscope_service.analyses.objectives.labelled import find_label
from bertscope_service.analyses.objectives.token_labels import linearised
from bertscope_service.analyses.observers.predictions import LabelSetObserver, LossObserver
from bertscope_service.analyses.texts import read_inputs
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.observer import Observer
from bertscope_service.encoders.sequences import TokenSequence

FIELD = "objective.multi_label.texts"


@dataclass(frozen=True, slots=True)
class LabelSet:
    """A text or pair, and the names of the labels that hold for it."""

    input: tuple[str, str | None]
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LabelSetsQuery:
    """A query for sets of labels; see bertscope.v1.LabelSets."""

    metrics: ClassVar[tuple[Metric, ...]] = (Metric.LABEL_F1, Metric.ACCURACY, Metric.LOSS)
    has_loss: ClassVar[bool] = True

    texts: tuple[LabelSet, ...]
    truncate: bool


class LabelSetsObjective:
    """One row for each text. Raises InvalidArgument for a text that is too long or empty, or with a label that the model
    lacks."""

    metrics = LabelSetsQuery.metrics
    skipped = pieces = 0

    def __init__(self, query: LabelSetsQuery, tokenizer: TextTokenizer, labels: Sequence[str], model: str) -> None:
        """Tokenizes the texts. labels: names of the model's labels. model: its name, for errors."""
        self.items = len(query.texts)
        texts = list(read_inputs(tokenizer, [text.input for text in query.texts], FIELD, ".input", truncate=query.truncate))
        self.truncated = sum(bool(tokenized.truncated) for tokenized in texts)
        self.sequences: Sequence[TokenSequence] = [tokenized.sequence for tokenized in texts]
        self._golds = np.zeros((self.items, len(labels)), dtype=bool)
        for index, text in enumerate(query.texts):
            for number, name in enumerate(text.labels):
                gold = find_label(name, labels, f"{FIELD}[{index}].labels[{number}]", model, name_field="")
                self._golds[index, gold] = True
        observers = [LabelSetObserver(tuple(np.flatnonzero(row).tolist())) for row in self._golds]
        self.observers: Sequence[Observer] = observers
        self.losses: Sequence[LossObserver] = observers

    def later_observers(self, untouched: Sequence[NDArray[np.float32]]) -> Sequence[Observer]:
        return self.observers

    def measure(self, seen: Sequence[NDArray[np.float32]]) -> NDArray[np.float64]:
        """Returns [3, texts]. A label is predicted if its probability is over 0.5."""
        scores = np.array(seen, dtype=np.float32)
        losses = -np.where(self._golds, log_sigmoid(list(scores)), log_sigmoid(list(-scores))).mean(axis=1)
        found = scores > 0
        shared, named = (found & self._golds).sum(axis=1), found.sum(axis=1) + self._golds.sum(axis=1)
        return np.stack([linearised(2 * shared, named), (found == self._golds).all(axis=1), losses.clip(min=0.0)])
