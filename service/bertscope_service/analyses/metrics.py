"""Measures of items, and how much one changes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from bertscope_service.analyses.intervals import IntervalMethod, NoInterval


class Metric(Enum):
    """A measure of an item; see bertscope.v1.Metric."""

    LOSS = "loss"
    ACCURACY = "accuracy"
    RECIPROCAL_RANK = "reciprocal_rank"
    DIVERGENCE = "divergence"
    TOKEN_ACCURACY = "token_accuracy"
    ENTITY_F1 = "entity_f1"
    PEARSON = "pearson"
    SPEARMAN = "spearman"
    SQUARED_ERROR = "squared_error"
    ANSWER_F1 = "answer_f1"
    LABEL_F1 = "label_f1"
    SCORE_DIFFERENCE = "score_difference"

    @property
    def gain(self) -> int:
        """+1 if higher is better, -1 if lower is."""
        return -1 if self in (Metric.LOSS, Metric.DIVERGENCE, Metric.SQUARED_ERROR) else 1


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """The parameters of an interval: number of resamples, their seed, confidence from 0 to 1."""

    resamples: int = 1000
    seed: int = 0
    confidence: float = 0.95


@dataclass(frozen=True, slots=True)
class MetricEffect:
    """The change of one metric. `low` and `high` are None where `no_interval` says why; `mcnemar_p` is None except for
    accuracy."""

    metric: Metric
    score: float
    difference: float
    low: float | None
    high: float | None
    mcnemar_p: float | None
    method: IntervalMethod | None = None
    no_interval: NoInterval | None = None
