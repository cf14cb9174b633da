"""What sweeps give back: what each head is worth, as frozen dataclasses.

Layers and heads count from 0. A score is the mean over the items of an objective; `BETTER` and `UNITS` say how to read it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bertscope import _tables
from bertscope.results import Provenance

if TYPE_CHECKING:
    import pandas as pd

HeadSet = Mapping[int, tuple[int, ...]]
"""Heads by layer."""
MEASURES = ("score", "difference", "low", "high", "mcnemar_p")

BETTER = {"accuracy": 1, "reciprocal_rank": 1, "loss": -1}
"""Whether a higher (1) or a lower score (-1) of a metric is better; a divergence is neither."""
CHANGED = {"zero": "zeroed", "uniform": "made uniform", "mean": "replaced by its mean", "scale": "scaled"}
SCOPES = {"heads": "head", "layers": "layer", "sets": "set of heads"}
UNITS = {"loss": "nats", "divergence": "nats"}
"""Unit of a metric; the others are shares from 0 to 1."""


@dataclass(frozen=True)
class MetricEffect:
    """How one metric moved."""

    metric: str
    """"loss" (negative log-likelihood, nats), "accuracy", "reciprocal_rank" (0 to 1) or "divergence" (nats)."""
    score: float
    """Its mean over the items with the heads changed."""
    difference: float
    """Mean over the items of score minus baseline."""
    low: float | None
    """Lower end of the interval of the difference; None with a single item."""
    high: float | None
    """Upper end of the interval."""
    mcnemar_p: float | None
    """Two-sided exact p-value of McNemar's test, not corrected for the number of sets; only for "accuracy"."""

    @property
    def benefit(self) -> float:
        """The difference, positive where it is for the better; minus the difference for a divergence."""
        return self.difference * BETTER.get(self.metric, -1)

    @property
    def helped(self) -> bool:
        """True if the interval excludes 0 and the change is for the better; never for a divergence."""
        return self._moved(BETTER.get(self.metric, 0))

    @property
    def hurt(self) -> bool:
        """True if the interval excludes 0 and the change is for the worse; never for a divergence."""
        return self._moved(-BETTER.get(self.metric, 0))

    @property
    def decided(self) -> bool:
        """True if the interval excludes 0, whatever the direction."""
        return self._moved(1) or self._moved(-1)

    def _moved(self, direction: int) -> bool:
        if self.low is None or self.high is None:
            return False
        return (direction > 0 and self.low > 0) or (direction < 0 and self.high < 0)


@dataclass(frozen=True)
class HeadEffect:
    """What changing one set of heads did."""

    heads: HeadSet
    """The heads that were changed, by layer; ready for `prune_heads`."""
    metrics: Mapping[str, MetricEffect]
    """How each metric moved, the objective's first one first."""

    @property
    def layer(self) -> int | None:
        """The layer, if the heads are of one."""
        return next(iter(self.heads)) if len(self.heads) == 1 else None

    @property
    def head(self) -> int | None:
        """The head, if it is a single one."""
        return next(iter(self.heads.values()))[0] if sum(map(len, self.heads.values())) == 1 else None

    @property
    def name(self) -> str:
        """The heads in short: "3:1,4" are two of layer 3, "3:1+5:0" one of layer 3 and one of layer 5."""
        return heads_name(self.heads)

    @property
    def difference(self) -> float:
        """How the first metric moved."""
        return next(iter(self.metrics.values())).difference


@dataclass(frozen=True)
class CurvePoint:
    """One point of a greedy curve."""

    added: tuple[HeadSet, ...]
    """The sets that were removed since the point before, in their order; empty for the baseline."""
    removed: int
    """Number of heads that are removed so far."""
    share_removed: float
    """Share of the model's heads that are removed, 0 to 1."""
    metrics: Mapping[str, MetricEffect]
    """As in `HeadEffect`, for all heads removed so far."""

    @property
    def names(self) -> list[str]:
        """The added sets in short, as `HeadEffect.name`."""
        return list(map(heads_name, self.added))


@dataclass(frozen=True)
class SweepStart:
    """What is known before anything is changed."""

    baseline: Mapping[str, float]
    """Score of each metric, the objective's first one first."""
    total: int
    """Number of effects or points that follow."""
    items: int
    """Number of items that are measured."""
    skipped_items: int
    """Number of prompts that were left out."""
    truncated_texts: int
    """Number of texts that were cut."""
    predicted_pieces: int
    """Number of masks of all texts; 0 for labels."""


@dataclass(frozen=True)
class SweepSummary:
    """The end of a sweep."""

    helped: int
    """Number of sets whose change made the first metric better, by its interval; 0 for divergences and curves."""
    hurt: int
    """Likewise, worse. The others can't be told from no effect."""
    layer_passes: int
    """Runs of one layer on one text that were computed."""
    full_layer_passes: int
    """Runs that the sweep takes without shared layers."""
    seconds: float
    """How long it took."""
    provenance: Provenance
    """Where the numbers come from."""


@dataclass(frozen=True, repr=False)
class SweepTable:
    """A whole sweep: effects or, of a greedy one, points."""

    mode: str
    """What the changed heads contributed: "zero", "uniform", "mean", "scale"."""
    scope: str
    """What was changed, one after another: "heads", "layers", or the given "sets"."""
    start: SweepStart
    """The baseline and the counts."""
    effects: tuple[HeadEffect, ...]
    """In the order of the reply; empty for a greedy sweep."""
    points: tuple[CurvePoint, ...]
    """In the order of removal; empty but for a greedy sweep."""
    summary: SweepSummary
    """Counts, cost and provenance."""
    factor: float | None = None
    """Of mode "scale"."""
    confidence: float = 0.95
    """Of the intervals, over 0 to 1."""
    resamples: int = 1000
    """Of the bootstrap that the intervals come from."""
    seed: int = 0
    """Of that bootstrap."""

    def __repr__(self) -> str:
        # One line: a notebook shows what a cell ends with, and the effects fill pages.
        scores = ", ".join(f"{metric} {score:.4g}" for metric, score in self.baseline.items())
        found = f"{len(self.points)} points" if self.points else f"{len(self.effects)} effects"
        return f"<SweepTable: {self.what}, {self.start.items} items, {self.provenance.model}; baseline {scores}; {found}>"

    @property
    def baseline(self) -> Mapping[str, float]:
        """Score of each metric with nothing changed."""
        return self.start.baseline

    @property
    def provenance(self) -> Provenance:
        """Where the numbers come from."""
        return self.summary.provenance

    @property
    def what(self) -> str:
        """What was done, in words: "each head zeroed"."""
        order = ", one after another" if self.points else ""
        return f"each {SCOPES[self.scope]} {CHANGED.get(self.mode, self.mode)}{order}"

    def metric(self, name: str | None = None) -> str:
        """The name, checked; the objective's first metric if there is none. Raises KeyError for another objective's."""
        if name is not None and name not in self.baseline:
            raise KeyError(f"{name} is not among the metrics of the sweep: {', '.join(self.baseline)}")
        return name or next(iter(self.baseline))

    def matrix(self, metric: str | None = None, what: str = "difference") -> npt.NDArray[np.float64]:
        """[layers, heads], or [layers, 1] of a sweep over layers; NaN where nothing was measured.

        `what` is "score", "difference", "low", "high" or "mcnemar_p". The array reaches to the last layer and head that
        were measured. Raises ValueError for a curve and for sets of several heads, which have no place in it.
        """
        name = self.metric(metric)
        if what not in MEASURES:
            raise ValueError(f"what must be one of {', '.join(MEASURES)}, not {what!r}")
        if not self.effects or not (self.scope == "layers" or all(effect.head is not None for effect in self.effects)):
            raise ValueError("only a sweep over heads or layers is a matrix; to_pandas() takes any")
        places = [
            (effect.layer or 0, 0 if self.scope == "layers" else effect.head or 0, getattr(effect.metrics[name], what))
            for effect in self.effects
        ]
        shape = 1 + max(layer for layer, _, _ in places), 1 + max(head for _, head, _ in places)
        result = np.full(shape, math.nan)
        for layer, head, value in places:
            result[layer, head] = math.nan if value is None else value
        return result

    def to_pandas(self) -> pd.DataFrame:
        """A row for each effect and metric: layer, head, heads ("3:1,4"), metric, score, difference, low, high,
        mcnemar_p. Of a curve, for each point and metric: removed, share_removed, added, metric and so on.
        Needs the extra "pandas"."""
        return _tables.sweep(self)


def heads_name(heads: Mapping[int, Iterable[int]]) -> str:
    """The heads in short, as `HeadEffect.name`."""
    return "+".join(f"{layer}:{','.join(map(str, numbers))}" for layer, numbers in heads.items())
