"""What an ablation asks: which heads are changed, to what, and how the differences are judged."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

HeadSet: TypeAlias = tuple[tuple[int, tuple[int, ...]], ...]
"""Heads that are changed together: (layer, its heads), layers ascending, heads ascending, none twice."""


class Mode(Enum):
    """What replaces the context of a head; see bertscope.v1.HeadIntervention.Mode."""

    ZERO = "zero"
    UNIFORM = "uniform"
    MEAN = "mean"
    SCALE = "scale"


class Metric(Enum):
    """What is measured on an item; see bertscope.v1.Metric."""

    LOSS = "loss"
    ACCURACY = "accuracy"
    RECIPROCAL_RANK = "reciprocal_rank"
    DIVERGENCE = "divergence"

    @property
    def gain(self) -> int:
        """+1 if higher is better, -1 if lower is."""
        return 1 if self in (Metric.ACCURACY, Metric.RECIPROCAL_RANK) else -1


class Order(Enum):
    """Which set a greedy curve removes next; see bertscope.v1.Greedy.Order."""

    EFFECT = "effect"
    IMPORTANCE = "importance"
    BEST_REMAINING = "best_remaining"


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """How intervals are computed: resamples, their seed, confidence 0 to 1."""

    resamples: int = 1000
    seed: int = 0
    confidence: float = 0.95


@dataclass(frozen=True, slots=True)
class Greedy:
    """A curve: `step` sets are removed between two points, `max_removed` at its end; `metric` None is the first one."""

    order: Order
    step: int
    max_removed: int
    metric: Metric | None


@dataclass(frozen=True, slots=True)
class SweepQuery:
    """A SweepHeads request, apart from its objective and its interventions. `scale` is 1 but for Mode.SCALE."""

    sets: tuple[HeadSet, ...]
    mode: Mode
    scale: float
    reference_texts: tuple[str, ...]
    bootstrap: Bootstrap
    memory_bytes: int
    greedy: Greedy | None


@dataclass(frozen=True, slots=True)
class MetricEffect:
    """How one metric moved; low and high are None with a single item, `mcnemar_p` but for accuracies."""

    metric: Metric
    score: float
    difference: float
    low: float | None
    high: float | None
    mcnemar_p: float | None


@dataclass(frozen=True, slots=True)
class Effect:
    """What changing a set did."""

    heads: HeadSet
    metrics: tuple[MetricEffect, ...]


@dataclass(frozen=True, slots=True)
class Start:
    """What is known before anything is changed; see bertscope.v1.SweepStart."""

    baseline: tuple[tuple[Metric, float], ...]
    total: int
    items: int
    skipped_items: int
    truncated_texts: int
    predicted_pieces: int


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a greedy curve."""

    added: tuple[HeadSet, ...]
    share_removed: float
    metrics: tuple[MetricEffect, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """The end of a sweep; see bertscope.v1.SweepSummary."""

    helped: int
    hurt: int
    layer_passes: int
    full_layer_passes: int
    seconds: float


Event: TypeAlias = Start | Effect | Point | Summary


def every_head(layers: int, heads: int) -> tuple[HeadSet, ...]:
    """Each head alone, layer by layer."""
    return tuple(((layer, (head,)),) for layer in range(layers) for head in range(heads))


def every_layer(layers: int, heads: int) -> tuple[HeadSet, ...]:
    """All heads of each layer together."""
    return tuple(((layer, tuple(range(heads))),) for layer in range(layers))


def head_count(sets: Sequence[HeadSet], without: Set[tuple[int, int]] = frozenset()) -> int:
    """How many heads the union of some sets has, those (layer, head) in `without` left out."""
    return len({(layer, head) for heads in sets for layer, numbers in heads for head in numbers} - without)
