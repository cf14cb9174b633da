"""Agreement between the vectors that two models make of the same texts: how far each moved, and what else is near it.

Vectors of two models have axes of their own, so that what counts is which texts are alike by each: representational similarity
analysis (Kriegeskorte, Mur and Bandettini 2008) and overlap of nearest neighbours (Klabunde et al. 2025, "Similarity of Neural
Network Models: A Survey", neighbourhood-based measures).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.correlations import spearman_values
from bertscope_service.analyses.metrics import Bootstrap
from bertscope_service.analyses.states import StatesPlan
from bertscope_service.analyses.text_vectors import unit_vectors
from bertscope_service.benchmark.losses import ScoredModel
from bertscope_service.benchmark.timings import interval_of_mean
from bertscope_service.engine.rows import Row

TEXTS_AT_A_TIME = 32
"""Number of texts that are compared with all others before another caller's work may run."""

MIN_TEXTS = 3
"""Minimum number of texts: the others of a text have an order then."""

EQUAL = 1e-9
"""A rank correlation that is less than this below 1 is 1, but for rounding."""


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over texts, with its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class VectorAgreement:
    """The agreement of two models' vectors; see bertscope.v1.VectorAgreement. `cosine` is None for vectors of other sizes."""

    cosine: Mean | None
    neighbours: Mean
    k: int
    rank_correlation: Mean
    texts: int


async def measure_vectors(
    models: Sequence[ScoredModel],
    baseline: int,
    plans: Sequence[StatesPlan],
    k: int,
    bootstrap: Bootstrap,
    tick: Callable[[float], None],
) -> list[VectorAgreement | None]:
    """Compares the vectors of each model with the baseline's; the baseline's own is None. `plans` are each model's, of the same
    texts, at least k + 2. `tick` receives the finished part, 0 to 1. Raises FailedPrecondition for vectors that are not finite.
    """
    found: list[VectorAgreement | None] = [None] * len(models)
    if len(models) == 1:
        return found
    wanted = await _vectors(models[baseline], plans[baseline])
    others = [index for index in range(len(models)) if index != baseline]
    for number, index in enumerate(others):
        bulk = models[index].bulk
        compared = Compared(wanted, await _vectors(models[index], plans[index]), k)
        for begin in range(0, len(wanted), TEXTS_AT_A_TIME):
            await bulk.compute(partial(compared.add, range(len(wanted))[begin : begin + TEXTS_AT_A_TIME]))
        found[index] = await bulk.compute(partial(compared.agreement, bootstrap))
        tick((number + 1) / len(others))
    return found


async def _vectors(model: ScoredModel, plan: StatesPlan) -> NDArray[np.float64]:
    rows = plan.rows
    results = model.bulk.results([len(sequence) for sequence, _ in rows], lambda row: Row(model.encoder, *rows[row]))
    async with aclosing(results) as steps:
        seen = [step async for step in steps]
    return await model.bulk.compute(partial(unit_vectors, seen))


class Compared:
    """Two models' vectors of unit length of the same texts, [texts, size] each, compared text by text.

    `shared` and `correlations` are the numbers of each text that was added. An interval of their means is over the texts, as
    the reader wants to know what holds for others like them. A text counts by itself and as a neighbour of all others, so that
    these numbers are not independent; see `values`.
    """

    def __init__(self, baseline: NDArray[np.float64], model: NDArray[np.float64], k: int) -> None:
        self._vectors, self._k = (baseline, model), k
        texts = len(baseline)
        self.shared, self.correlations = np.zeros(texts), np.zeros(texts)
        self._moved_shared, self._moved_correlations = np.zeros(texts), np.zeros(texts)

    def add(self, texts: Sequence[int]) -> None:
        """Compares some texts with all others."""
        for text, *alike in zip(texts, *(own[list(texts)] @ own.T for own in self._vectors), strict=True):
            self._add_neighbours(text, alike)
            self._add_correlation(text, [np.delete(own, text) for own in alike])

    def _add_neighbours(self, text: int, alike: Sequence[NDArray[np.float64]]) -> None:
        first, second = (nearest(own, text, self._k + 1) for own in alike)
        shared = self.shared[text] = self._common(first, second)
        for other in {*first[:-1], *second[:-1]}:
            left = ([near for near in own if near != other] for own in (first, second))
            self._moved_shared[other] += self._common(*left) - shared

    def _common(self, first: Sequence[int], second: Sequence[int]) -> float:
        return len({*first[: self._k]} & {*second[: self._k]}) / self._k

    def _add_correlation(self, text: int, alike: Sequence[NDArray[np.float64]]) -> None:
        values = spearman_values(alike[1], alike[0])
        self.correlations[text] = correlation = values.mean()
        self._moved_correlations += np.insert(values - correlation, text, 0.0)

    def values(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns the mean of `shared`, and that of `correlations`, plus each text's influence on it, by itself and as a
        neighbour; [texts] each.

        Of `shared` it is the jackknife's (Arvesen 1969), whose variance is too large if anything (Efron and Stein 1981); of
        `correlations` the first derivative in the text's weight (Hampel 1974).
        """
        texts = len(self.shared)
        # The mean without each text; those of which it was a neighbour have the next one instead.
        without = (self.shared.sum() - self.shared + self._moved_shared) / (texts - 1)
        shared = self.shared.mean() - (texts - 1) * (without - without.mean())
        return shared, self.correlations + self._moved_correlations / texts

    def agreement(self, bootstrap: Bootstrap) -> VectorAgreement:
        """Returns the means over all texts, which must have been added."""
        baseline, model = self._vectors
        shared, correlations = self.values()
        neighbours = _mean(float(self.shared.mean()), shared, 0.0, bootstrap)
        if not np.ptp(self.shared) and self.correlations.min() < 1 - EQUAL:
            # All have the same share by chance: models that order texts differently also differ in neighbours.
            neighbours = Mean(neighbours.value, 0.0, 1.0)
        cosines = (baseline * model).sum(axis=1) if baseline.shape == model.shape else None
        return VectorAgreement(
            None if cosines is None else _mean(float(cosines.mean()), cosines, -1.0, bootstrap),
            neighbours,
            self._k,
            _mean(float(self.correlations.mean()), correlations, -1.0, bootstrap),
            len(baseline),
        )


def nearest(alike: NDArray[np.float64], text: int, count: int) -> list[int]:
    """Returns the `count` texts that are most alike to a text, but for itself; equal ones in their order."""
    order: list[int] = np.argsort(-alike, kind="stable")[: count + 1].tolist()
    return [other for other in order if other != text][:count]


def _mean(value: float, values: NDArray[np.float64], least: float, bootstrap: Bootstrap) -> Mean:
    low, high = interval_of_mean(values, np.ones(len(values)), bootstrap, least, 1.0)
    # Rounding puts cosines of equal vectors beyond 1.
    value = min(1.0, value)
    return Mean(value, min(low, value), max(high, value))
