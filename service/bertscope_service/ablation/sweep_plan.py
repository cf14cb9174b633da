"""The plan of a sweep over heads, which are changed and how, and the events of a sweep."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from bertscope_service.analyses.interventions import Mode
from bertscope_service.analyses.metrics import Bootstrap, Metric, MetricEffect
from bertscope_service.encoders.base import HeadSet


class Order(Enum):
    """The rule by which a greedy curve chooses the next set to remove; see bertscope.v1.Greedy.Order."""

    EFFECT = "effect"
    IMPORTANCE = "importance"
    BEST_REMAINING = "best_remaining"


@dataclass(frozen=True, slots=True)
class Greedy:
    """A greedy curve: `step` sets are removed between two points, `max_removed` at its end; `metric` None is the first
    metric."""

    order: Order
    step: int
    max_removed: int
    metric: Metric | None


@dataclass(frozen=True, slots=True)
class SweepQuery:
    """A SweepHeads request without its objective and its interventions. `scale` is 1 except for Mode.SCALE.

    `sets` are measured, or may be removed by a curve; they exclude the sets that an earlier call has `done`.
    """

    sets: tuple[HeadSet, ...]
    mode: Mode
    scale: float
    bootstrap: Bootstrap
    memory_bytes: int
    greedy: Greedy | None
    done: tuple[HeadSet, ...] = ()


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of changing one set of heads."""

    heads: HeadSet
    metrics: tuple[MetricEffect, ...]


@dataclass(frozen=True, slots=True)
class Start:
    """The first event of a sweep, known before anything is changed; see bertscope.v1.SweepStart."""

    baseline: tuple[tuple[Metric, float], ...]
    total: int
    items: int
    skipped_items: int
    truncated_texts: int
    predicted_pieces: int
    bootstrap: Bootstrap
    done: int = 0


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a greedy curve."""

    added: tuple[HeadSet, ...]
    share_removed: float
    metrics: tuple[MetricEffect, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """The last event of a sweep; see bertscope.v1.SweepSummary."""

    helped: int
    hurt: int
    layer_passes: int
    full_layer_passes: int
    seconds: float


Event: TypeAlias = Start | Effect | Point | Summary


def every_head(layers: int, heads: int) -> tuple[HeadSet, ...]:
    """Returns each head alone, layer by layer."""
    return tuple(((layer, (head,)),) for layer in range(layers) for head in range(heads))


def every_layer(layers: int, heads: int) -> tuple[HeadSet, ...]:
    """Returns all heads of each layer together."""
    return tuple(((layer, tuple(range(heads))),) for layer in range(layers))


def head_count(sets: Sequence[HeadSet], without: Set[tuple[int, int]] = frozenset()) -> int:
    """Counts the heads in the union of some sets, except those (layer, head) in `without`."""
    return len({(layer, head) for heads in sets for layer, numbers in heads for head in numbers} - without)
