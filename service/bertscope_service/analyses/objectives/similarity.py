"""Correlation of the cosines of texts' vectors with gold values, as embedding models are scored.

STS benchmark: Cer et al. 2017; by cosines: Reimers and Gurevych 2019, section 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.correlations import pearson_values, spearman_values
from bertscope_service.analyses.layer_steps import LayerStep
from bertscope_service.analyses.metrics import Metric
from bertscope_service.analyses.observers.pooling import Pooling
from bertscope_service.analyses.observers.predictions import LossObserver
from bertscope_service.analyses.text_vectors import plan_vectors, unit_vectors
from bertscope_service.checkpoints.declared_pooling import DeclaredPooling
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.base import Shape
from bertscope_service.encoders.observer import Observer
from bertscope_service.encoders.sequences import TokenSequence

FIELD = "objective.similarity.pairs"
PARTS = ("text", "text_pair")


@dataclass(frozen=True, slots=True)
class SimilarityQuery:
    """A query for pairs of texts with gold values, not all of them equal; see bertscope.v1.SimilarTexts. `pooling` None is the
    declared one, with `if_declared` the mean for a model that declares none."""

    metrics: ClassVar[tuple[Metric, ...]] = (Metric.PEARSON, Metric.SPEARMAN)
    has_loss: ClassVar[bool] = False

    pairs: tuple[tuple[str, str], ...]
    values: tuple[float, ...]
    pooling: Pooling | None
    if_declared: bool
    truncate: bool


class SimilarityObjective:
    """Two rows for each pair: its texts, alone. Raises InvalidArgument for a text that is too long or empty."""

    metrics = SimilarityQuery.metrics
    losses: Sequence[LossObserver] = ()
    skipped = pieces = 0

    def __init__(
        self, query: SimilarityQuery, tokenizer: TextTokenizer, shape: Shape, declared: DeclaredPooling | None
    ) -> None:
        """`declared`: the pooling in place of the query's, if it asks for that."""
        texts = [text for pair in query.pairs for text in pair]
        fields = [f"{FIELD}[{index}].input.{part}" for index in range(len(query.pairs)) for part in PARTS]
        pooling = query.pooling or Pooling.MEAN
        plan = plan_vectors(texts, fields, tokenizer, shape, declared, pooling=pooling, truncate=query.truncate)
        self.items = len(query.pairs)
        self.truncated = sum(bool(text.truncated) for text in plan.texts)
        self.sequences: Sequence[TokenSequence] = [sequence for sequence, _ in plan.rows]
        self.observers: Sequence[Observer] = [observer for _, observer in plan.rows]
        self._golds = np.array(query.values, dtype=np.float64)

    def later_observers(self, untouched: Sequence[LayerStep]) -> Sequence[Observer]:
        return self.observers

    def measure(self, seen: Sequence[LayerStep]) -> NDArray[np.float64]:
        """Returns [2, pairs]: values whose means are the correlations of the cosines with the gold values."""
        vectors = unit_vectors(seen)
        cosines = (vectors[0::2] * vectors[1::2]).sum(axis=1)
        return np.stack([pearson_values(cosines, self._golds), spearman_values(cosines, self._golds)])
