"""Describes the effects of changing heads on the metrics of an objective. A score is the mean over its items.

Layers and heads count from 0. `BETTER` and `UNITS` say how to read a score.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bertscope.values.display import record

__all__ = ["CurvePoint", "HeadEffect", "MetricEffect"]

HeadSet = Mapping[int, tuple[int, ...]]
"""Heads by layer."""

BETTER = {
    "accuracy": 1,
    "reciprocal_rank": 1,
    "token_accuracy": 1,
    "entity_f1": 1,
    "label_f1": 1,
    "answer_f1": 1,
    "pearson": 1,
    "spearman": 1,
    "loss": -1,
    "squared_error": -1,
}
"""1 if a higher score of a metric is better, -1 if a lower one is; a divergence is neither."""
UNITS = {"loss": "nats", "divergence": "nats"}
"""Unit of a metric; the others are shares from 0 to 1."""


@record
class MetricEffect:
    """The change of one metric."""

    metric: str
    """"loss" (negative log-likelihood, nats), "accuracy",
    "reciprocal_rank", "token_accuracy", "entity_f1", "answer_f1", "label_f1" (0 to 1), "divergence" (nats), "pearson",
    "spearman" (-1 to 1) or "squared_error"."""
    score: float
    """Its mean over the items with the heads changed."""
    difference: float
    """Mean over the items of score minus baseline."""
    low: float | None
    """Lower end of the interval of the difference; None where `no_interval` says why."""
    high: float | None
    """Upper end of the interval."""
    mcnemar_p: float | None
    """Two-sided exact p-value of McNemar's test, not corrected for the number of sets; only for "accuracy"."""
    interval_method: str | None = None
    """"studentized_bootstrap", or "adjusted_wald" for accuracies; None without an interval."""
    no_interval: str | None = None
    """Why there is none: "too_few_items" (below 5), "too_few_differ" (hardly an item changed) or "too_few_resamples"."""

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


@record
class HeadEffect:
    """The effect of changing one set of heads."""

    heads: HeadSet
    """The heads that were changed, by layer; ready for `prune_heads`."""
    metrics: Mapping[str, MetricEffect]
    """The change of each metric, the objective's first one first."""

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
        """The change of the first metric."""
        return next(iter(self.metrics.values())).difference


@record
class CurvePoint:
    """One point of a greedy curve."""

    added: tuple[HeadSet, ...]
    """The sets that were removed since the point before, in their order; empty for the baseline."""
    removed: int
    """Number of heads removed so far."""
    share_removed: float
    """Share of the model's heads removed, 0 to 1."""
    metrics: Mapping[str, MetricEffect]
    """Changes as in `HeadEffect`, for all heads removed so far."""

    @property
    def names(self) -> list[str]:
        """The added sets in short, as `HeadEffect.name`."""
        return list(map(heads_name, self.added))


def heads_name(heads: Mapping[int, Iterable[int]]) -> str:
    """Returns the heads in short, as `HeadEffect.name`."""
    return "+".join(f"{layer}:{','.join(map(str, numbers))}" for layer, numbers in heads.items())
