"""Measures how much of what a student lost came back by training: (student - untrained) / (teacher - untrained)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from bertscope.values.bootstrap import MIN_ITEMS, studentized
from numpy.typing import NDArray

from bertscope_service.analyses.metrics import Bootstrap, Metric
from bertscope_service.analyses.statistics import Resamples
from bertscope_service.distillation.training import Scores

SURE_ERRORS = 4.0
"""The untrained student's loss is at least so many times its standard error where an interval is given: a ratio whose
denominator may be 0 has none of finite length (Fieller 1954)."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """The share that came back of a metric, with its 95 % confidence interval over texts; None where there is none."""

    metric: Metric
    share: float
    low: float | None
    high: float | None


def recoveries(teacher: Scores, untrained: Scores, student: Scores) -> list[Recovery]:
    """Returns the share of each metric of which the untrained student lost something."""
    found = []
    for metric, (best, worst, own) in _columns(teacher, untrained, student).items():
        lost, back = best - worst, own - worst
        if lost.sum() > 0:
            found.append(recovery(metric, lost, back))
    return found


def recovery(metric: Metric, lost: NDArray[np.float64], back: NDArray[np.float64]) -> Recovery:
    """Returns the share sum(back) / sum(lost), with the studentized bootstrap's interval; both are [texts]."""
    share, items = float(back.sum() / lost.sum()), len(lost)
    error = float(lost.std(ddof=1) / np.sqrt(items)) if items >= MIN_ITEMS else np.inf
    if lost.mean() < SURE_ERRORS * error:
        return Recovery(metric, share, None, None)
    ends = studentized(back[:, None], Resamples(items, Bootstrap()), 0.95, lost)
    low, high = (float(end[0]) for end in ends)
    return Recovery(metric, share, None if np.isnan(low) else low, None if np.isnan(high) else high)


def _columns(*models: Scores) -> dict[Metric, list[NDArray[np.float64]]]:
    """Returns each metric of each model on each text, the higher the better."""
    found = {Metric.DIVERGENCE: [-model.divergence for model in models]}
    if models[0].answers.any():
        found[Metric.ACCURACY] = [model.right.astype(np.float64) for model in models]
        found[Metric.LOSS] = [-model.loss for model in models]
    return found
