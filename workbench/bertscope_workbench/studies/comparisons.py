"""Compares two models on the items of a study: differences with paired bootstrap intervals, and McNemar's test."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from bertscope import Interval
from bertscope.values.bootstrap import mcnemar
from bertscope.values.display import record
from bertscope.values.intervals import mean_interval

from bertscope_workbench.studies.asking import Outcome
from bertscope_workbench.studies.definition import Part
from bertscope_workbench.studies.items import Item
from bertscope_workbench.studies.measures import NAN, Group, credit, groups_of, is_share

RESAMPLES = 2_000
"""The resamples of each interval; a study may have hundreds of groups."""
SEED = 0


@record
class Difference:
    """The difference of two models in one figure, on the items that both were asked."""

    group: str
    """The group of items that it is about; empty for all."""
    metric: str
    """Its metric."""
    items: int
    """The items that both were asked."""
    value: float
    """The model's figure minus the baseline's, -1 to 1; NaN without an item."""
    interval: Interval | None
    """The paired interval, 95 %, of a bootstrap, adjusted where items hardly differ; None where they are too few."""
    only_model: int
    """The items that only the model has right; 0 of metrics that are no share."""
    only_baseline: int
    """The items that only the baseline has right; 0 of metrics that are no share."""
    p_value: float
    """McNemar's exact test, two-sided, of these two numbers; NaN of metrics that are no share."""


def compare(
    part: Part, items: Sequence[Item], outcomes: Sequence[Outcome], baseline: Sequence[Outcome]
) -> tuple[Difference, ...]:
    """Returns the differences of the whole part, then of each group, for each metric; none if the models share no item.

    Differences are taken item by item, and items are drawn with replacement; where the figure is a mean over groups, they are
    drawn within each. The seed is always the same, so that a study gives the same intervals each time.
    """
    both = [not one.skipped and not other.skipped for one, other in zip(outcomes, baseline, strict=True)]
    if not any(both):
        return ()
    groups = groups_of(part, items, both.__getitem__)
    return tuple(_difference(group, metric, outcomes, baseline) for metric in part.metrics for group in groups)


def _difference(group: Group, metric: str, outcomes: Sequence[Outcome], baseline: Sequence[Outcome]) -> Difference:
    strata = []
    for stratum in group.strata:
        values = np.array([credit(outcomes[index], metric) - credit(baseline[index], metric) for index in stratum])
        strata.append(values[~np.isnan(values)])
    strata = [values for values in strata if len(values)]
    won, lost = (sum(int((sign * values > 0).sum()) for values in strata) if is_share(metric) else 0 for sign in (1, -1))
    return Difference(
        group=group.name,
        metric=metric,
        items=sum(map(len, strata)),
        value=math.fsum(float(values.mean()) for values in strata) / len(strata) if strata else NAN,
        interval=mean_interval(strata, (-1.0, 1.0), resamples=RESAMPLES, seed=SEED) if strata else None,
        only_model=won,
        only_baseline=lost,
        p_value=mcnemar(lost, won) if is_share(metric) else NAN,
    )
