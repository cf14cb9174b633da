"""Significance of effects: intervals over the items, McNemar's test for accuracies."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from bertscope.values.bootstrap import MIN_ITEMS, mcnemar, studentized
from numpy.typing import NDArray

from bertscope_service.analyses.intervals import IntervalMethod, NoInterval, adjusted_wald, enough_resamples
from bertscope_service.analyses.metrics import Bootstrap, Metric, MetricEffect

SHARES = (
    Metric.ACCURACY,
    Metric.RECIPROCAL_RANK,
    Metric.TOKEN_ACCURACY,
    Metric.ENTITY_F1,
    Metric.ANSWER_F1,
    Metric.LABEL_F1,
)
CORRELATIONS = (Metric.PEARSON, Metric.SPEARMAN)
RANGES = dict.fromkeys(SHARES, (-1.0, 1.0)) | dict.fromkeys(CORRELATIONS, (-2.0, 2.0)) | {Metric.DIVERGENCE: (0.0, math.inf)}
"""The range of a metric's difference, if it has bounds."""

CHUNK_DRAWS = 128 * 1024
"""Items are drawn in chunks of about this size, which fit into a core's cache; each chunk has a generator of its own."""

KEPT_BYTES = 64 * 1024 * 1024
"""Maximum size of drawn counts that are kept; the others are drawn again for every effect, about 10 ns an item."""


class Resamples:
    """Resamples of some items, with replacement. Iteration yields each item's count in each resample, in chunks [rows, items].

    The same items and bootstrap always give the same resamples.
    """

    def __init__(self, items: int, bootstrap: Bootstrap) -> None:
        self.items = items
        self.bootstrap = bootstrap
        self._rows = max(1, CHUNK_DRAWS // items)
        self._kept: list[NDArray[Any]] = []

    def __iter__(self) -> Iterator[NDArray[np.float64]]:
        total, kept_bytes = -(-self.bootstrap.resamples // self._rows), 0
        for number in range(total):
            if number < len(self._kept):
                counts = self._kept[number]
            else:
                counts = self._draw(number)
                if kept_bytes + counts.nbytes <= KEPT_BYTES:
                    self._kept.append(counts)
            kept_bytes += counts.nbytes
            yield counts.astype(np.float64)

    def _draw(self, number: int) -> NDArray[Any]:
        rows = min(self._rows, self.bootstrap.resamples - number * self._rows)
        dtype = np.min_scalar_type(self.items)
        drawn = np.random.default_rng([self.bootstrap.seed, number]).integers(self.items, size=(rows, self.items), dtype=dtype)
        counts = np.empty((rows, self.items), dtype=dtype)
        for row in range(rows):
            counts[row] = np.bincount(drawn[row], minlength=self.items)
        return counts


class Comparison:
    """Compares runs with one baseline, item by item; all effects use the same resamples of the items.

    Means have studentized bootstrap intervals, accuracies have those of paired proportions. An effect on 872 items takes about
    a millisecond with two metrics and 1000 resamples.
    """

    def __init__(self, metrics: Sequence[Metric], baseline: NDArray[np.float64], bootstrap: Bootstrap) -> None:
        """Keeps the baseline: finite, [metrics, items], at least one item."""
        self.metrics = tuple(metrics)
        self.baseline = baseline
        self.bootstrap = bootstrap
        self.items = baseline.shape[1]
        self._resamples = Resamples(self.items, bootstrap)
        self._means = [index for index, metric in enumerate(self.metrics) if metric is not Metric.ACCURACY]

    def effects(self, changed: NDArray[np.float64]) -> tuple[MetricEffect, ...]:
        """Returns the change of each metric, from values with heads changed, finite, [metrics, items]."""
        differences = changed - self.baseline
        low, high = self._intervals(differences)
        scores, moved = changed.mean(axis=1).tolist(), differences.mean(axis=1).tolist()
        return tuple(
            MetricEffect(
                metric,
                scores[index],
                moved[index],
                None if math.isnan(low[index]) else low[index],
                None if math.isnan(high[index]) else high[index],
                mcnemar(int((differences[index] < 0).sum()), int((differences[index] > 0).sum()))
                if metric is Metric.ACCURACY
                else None,
                *self._how(metric, low[index]),
            )
            for index, metric in enumerate(self.metrics)
        )

    def unchanged(self) -> tuple[MetricEffect, ...]:
        """Returns the effects of no change at all, which are 0 for any items."""
        scores = self.baseline.mean(axis=1).tolist()
        return tuple(
            MetricEffect(metric, score, 0.0, 0.0, 0.0, 1.0 if metric is Metric.ACCURACY else None, self._how(metric, 0.0)[0])
            for metric, score in zip(self.metrics, scores, strict=True)
        )

    def _intervals(self, differences: NDArray[np.float64]) -> list[list[float]]:
        """Returns lower and upper ends for each metric, NaN without an interval."""
        ends = np.full((2, len(self.metrics)), np.nan)
        confidence, columns = self.bootstrap.confidence, differences.T
        if self.items >= MIN_ITEMS:
            exact = [index for index in range(len(self.metrics)) if index not in self._means]
            ends[:, exact] = adjusted_wald(columns[:, exact], confidence)
            if self._means and enough_resamples(self.bootstrap.resamples, confidence):
                ends[:, self._means] = studentized(columns[:, self._means], self._resamples, confidence)
        for index, metric in enumerate(self.metrics):
            ends[:, index] = ends[:, index].clip(*RANGES.get(metric, (-np.inf, np.inf)))
        found: list[list[float]] = ends.tolist()
        return found

    def _how(self, metric: Metric, end: float) -> tuple[IntervalMethod | None, NoInterval | None]:
        """Returns the method of a metric's interval, or the reason for a missing one."""
        if not math.isnan(end):
            exact = metric is Metric.ACCURACY
            return IntervalMethod.ADJUSTED_WALD if exact else IntervalMethod.STUDENTIZED_BOOTSTRAP, None
        if self.items < MIN_ITEMS:
            return None, NoInterval.TOO_FEW_ITEMS
        if not enough_resamples(self.bootstrap.resamples, self.bootstrap.confidence):
            return None, NoInterval.TOO_FEW_RESAMPLES
        return None, NoInterval.TOO_FEW_DIFFER
