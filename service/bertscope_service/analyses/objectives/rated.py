"""Correlation of predicted values with gold ones, as STS-B is scored (GLUE: Wang et al. 2019, section 3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.correlations import pearson_values, spearman_values
from bertscope_service.analyses.metrics import Metric
from bertscope_service.analyses.observers.predictions import LossObserver, ValueObserver
from bertscope_service.analyses.texts import check_finite, read_inputs
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.observer import Observer
from bertscope_service.encoders.sequences import TokenSequence

FIELD = "objective.regression.texts"


@dataclass(frozen=True, slots=True)
class RatedText:
    """A text or pair and its gold value, which is finite."""

    text: str
    pair: str | None
    value: float


@dataclass(frozen=True, slots=True)
class RatedQuery:
    """A query for texts with gold values, not all of them equal; see bertscope.v1.RatedTexts."""

    metrics: ClassVar[tuple[Metric, ...]] = (Metric.PEARSON, Metric.SPEARMAN, Metric.SQUARED_ERROR)
    has_loss: ClassVar[bool] = True

    texts: tuple[RatedText, ...]
    truncate: bool


class RatedObjective:
    """One row for each text. Raises InvalidArgument for a text that is too long or empty."""

    metrics = RatedQuery.metrics
    skipped = pieces = 0

    def __init__(self, query: RatedQuery, tokenizer: TextTokenizer) -> None:
        inputs = [(entry.text, entry.pair) for entry in query.texts]
        texts = list(read_inputs(tokenizer, inputs, FIELD, ".input", truncate=query.truncate))
        self.items = len(texts)
        self.truncated = sum(bool(text.truncated) for text in texts)
        self.sequences: Sequence[TokenSequence] = [text.sequence for text in texts]
        observers = [ValueObserver(entry.value) for entry in query.texts]
        self.observers: Sequence[Observer] = observers
        self.losses: Sequence[LossObserver] = observers
        self._golds = np.array([entry.value for entry in query.texts], dtype=np.float64)

    def later_observers(self, untouched: Sequence[NDArray[np.float32]]) -> Sequence[Observer]:
        return self.observers

    def measure(self, seen: Sequence[NDArray[np.float32]]) -> NDArray[np.float64]:
        """Returns [3, texts]: values whose means are the correlations, and squared differences from the gold values."""
        check_finite(seen)
        found = np.array([scores[0] for scores in seen], dtype=np.float64)
        golds = self._golds
        return np.stack([pearson_values(found, golds), spearman_values(found, golds), (found - golds) ** 2])
