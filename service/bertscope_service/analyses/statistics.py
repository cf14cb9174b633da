"""Whether an effect can be told from none: intervals by a paired bootstrap over the items, McNemar's test for accuracies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr

from bertscope_service.analyses.ablation import Bootstrap, Metric, MetricEffect

CHUNK_DRAWS = 128 * 1024
"""Items are drawn in chunks of about so many, which fit into a core's cache; each chunk has a generator of its own."""

KEPT_BYTES = 64 * 1024 * 1024
"""Drawn counts are kept up to this size; those beyond it are drawn anew for every effect, about 10 ns an item."""


class Resamples:
    """Resamples of some items, with replacement; iterating gives how often each item is in each, in chunks [rows, items].

    The same for the same items and bootstrap, however often they are asked for.
    """

    def __init__(self, items: int, bootstrap: Bootstrap) -> None:
        self.items = items
        self.bootstrap = bootstrap
        self._rows = max(1, CHUNK_DRAWS // items)
        self._kept: list[NDArray[Any]] = []

    def __iter__(self) -> Iterator[NDArray[Any]]:
        total, kept_bytes = -(-self.bootstrap.resamples // self._rows), 0
        for number in range(total):
            if number < len(self._kept):
                counts = self._kept[number]
            else:
                counts = self._draw(number)
                if kept_bytes + counts.nbytes <= KEPT_BYTES:
                    self._kept.append(counts)
            kept_bytes += counts.nbytes
            yield counts

    def _draw(self, number: int) -> NDArray[Any]:
        rows = min(self._rows, self.bootstrap.resamples - number * self._rows)
        dtype = np.min_scalar_type(self.items)
        drawn = np.random.default_rng([self.bootstrap.seed, number]).integers(self.items, size=(rows, self.items), dtype=dtype)
        counts = np.empty((rows, self.items), dtype=dtype)
        for row in range(rows):
            counts[row] = np.bincount(drawn[row], minlength=self.items)
        return counts


class Comparison:
    """Compares runs with one baseline, item by item; every effect is judged by the same resamples of the items.

    Bootstrap: Efron and Tibshirani 1993, section 13.3 (percentile method), on the differences of the items. An effect on
    872 items takes 0.4 ms with two metrics and 1000 resamples.
    """

    def __init__(self, metrics: Sequence[Metric], baseline: NDArray[np.float64], bootstrap: Bootstrap) -> None:
        """baseline: finite, [metrics, items], at least one item."""
        self.metrics = tuple(metrics)
        self.baseline = baseline
        self.bootstrap = bootstrap
        self.items = baseline.shape[1]
        self._resamples = Resamples(self.items, bootstrap)

    def effects(self, changed: NDArray[np.float64]) -> tuple[MetricEffect, ...]:
        """How each metric moved, from values with heads changed, finite, [metrics, items]."""
        differences = changed - self.baseline
        low, high = self._intervals(differences) if self.items > 1 else ([None] * len(self.metrics),) * 2
        scores, moved = changed.mean(axis=1).tolist(), differences.mean(axis=1).tolist()
        return tuple(
            MetricEffect(
                metric,
                scores[index],
                moved[index],
                low[index],
                high[index],
                mcnemar(self.baseline[index], changed[index]) if metric is Metric.ACCURACY else None,
            )
            for index, metric in enumerate(self.metrics)
        )

    def _intervals(self, differences: NDArray[np.float64]) -> Sequence[list[float]]:
        """Lower and upper ends for each metric."""
        means = np.empty((self.bootstrap.resamples, len(self.metrics)))
        done = 0
        for counts in self._resamples:
            means[done : done + len(counts)] = counts.astype(np.float64) @ differences.T / self.items
            done += len(counts)
        tail = (1 - self.bootstrap.confidence) / 2
        ends: list[list[float]] = np.quantile(means, [tail, 1 - tail], axis=0).tolist()
        return ends


def mcnemar(before: NDArray[np.float64], after: NDArray[np.float64]) -> float:
    """Two-sided exact p-value that two series of 0 and 1, [items], are right equally often (McNemar 1947; exact: binomial)."""
    lost, won = int((before > after).sum()), int((before < after).sum())
    # Under the null hypothesis the binomial distribution is symmetric, so both tails are equal.
    return min(1.0, 2 * float(bdtr(min(lost, won), lost + won, 0.5)))
