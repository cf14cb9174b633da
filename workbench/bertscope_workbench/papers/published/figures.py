"""Turns the outcomes of a reproduction's items into figures, compares them with published ones, and two models.

Differences have paired bootstrap intervals, and McNemar's test.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from bertscope import Interval, Model
from bertscope.values.bootstrap import mcnemar
from bertscope.values.display import record
from bertscope.values.intervals import mean_interval, wilson_interval
from bertscope.values.models import short_name

from bertscope_workbench.papers.published.item_kinds import Item
from bertscope_workbench.papers.published.outcomes import EXTRAS, PREFERENCES, Outcome
from bertscope_workbench.papers.published.reproduction import PublishedFigure, Reproduction

NAN = math.nan
REPRODUCED, DIFFERS = "reproduced", "differs"
UNCHANGED = ("fp32", "tf32", "bf16", "fp16")
"""Precisions of weights that may still be called by the name of their source."""
RESAMPLES = 2_000
"""The resamples of each interval; a reproduction may have hundreds of groups."""
SEED = 0
ICAT = "icat"
"""Metric of StereoSet that is made of two others: lms * min(ss, 1 - ss) / .5 (Nadeem et al. 2021, section 5)."""


@record
class GroupFigure:
    """A metric of a group of items."""

    group: str
    """The group of items that it is about; empty for all."""
    metric: str
    """Its metric."""
    value: float
    """Its value, 0 to 1."""
    low: float
    """Lower end of its 95 % interval (Wilson); NaN where there is none."""
    high: float
    """Upper end; NaN where there is none."""
    items: int
    """The items that were asked."""
    tied: int
    """Choices and pairs in which none was likelier; they count as wrong."""


@record
class Group:
    """A group of items."""

    name: str
    """Its name; empty for all items."""
    items: tuple[int, ...]
    """Indices of its items."""
    strata: tuple[tuple[int, ...], ...]
    """The same indices by the first group of each item, if the figure is a mean over these; else all together."""


@record
class ComparedFigure:
    """A published figure beside the figure of a model."""

    published: PublishedFigure
    model: str
    """The model that was asked."""
    value: float
    """Its figure; NaN if there is none."""
    verdict: str
    """"reproduced", "differs", or why they are not compared."""

    @property
    def settled(self) -> bool:
        """True if they are compared."""
        return self.verdict in (REPRODUCED, DIFFERS)


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


def credit(outcome: Outcome, metric: str) -> float:
    """Returns what an item adds to a metric, 0 to 1."""
    if metric == "accuracy":
        return float(outcome.right)
    if metric in (*EXTRAS, *PREFERENCES, ICAT):
        return outcome.extras.get(metric, NAN)
    if not outcome.rank:
        return 0.0
    return 1 / outcome.rank if metric == "mrr" else float(outcome.rank <= int(metric[2:]))


def groups_of(reproduction: Reproduction, items: Sequence[Item], taken: Callable[[int], bool]) -> list[Group]:
    """Returns the group of all items, then each group in the order of the data, those of the same kind together.

    Only items that are `taken` are in them. With the mean over groups, all items and the groups that items name second, third,
    and so on are divided by the groups that they name first.
    """
    indices = [index for index in range(len(items)) if taken(index)]
    members: dict[tuple[int, str], list[int]] = {}
    for index in indices:
        for kind, group in enumerate(items[index].groups):
            members.setdefault((kind, group), []).append(index)
    by_kind = sorted(members.items(), key=lambda each: each[0][0])
    found = [Group("", tuple(indices), _strata(reproduction, items, indices))]
    for (kind, name), own in by_kind:
        found.append(Group(name, tuple(own), _strata(reproduction, items, own) if kind else (tuple(own),)))
    return found


def _strata(reproduction: Reproduction, items: Sequence[Item], indices: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    by_first: dict[str, list[int]] = {}
    for index in indices:
        name = items[index].groups[0] if reproduction.mean == "groups" and items[index].groups else ""
        by_first.setdefault(name, []).append(index)
    return tuple(map(tuple, by_first.values()))


def figures_of(reproduction: Reproduction, items: Sequence[Item], outcomes: Sequence[Outcome]) -> list[GroupFigure]:
    """Returns the figures of the whole reproduction, then of each group in the order of the data, for each metric."""
    groups = groups_of(reproduction, items, lambda index: not outcomes[index].skipped)
    return [_figure(group, metric, outcomes) for metric in reproduction.metrics for group in groups]


def _idealized(group: Group, outcomes: Sequence[Outcome]) -> GroupFigure:
    """Returns the idealized score of a group, of its figures in ss and lms: 1 for a model that never prefers what means
    nothing, nor one of the others."""
    stereotypes, meaningful = (_figure(group, metric, outcomes) for metric in PREFERENCES)
    value = meaningful.value * min(stereotypes.value, 1 - stereotypes.value) / 0.5
    return replace(stereotypes, metric=ICAT, value=value, low=NAN, high=NAN)


def _figure(group: Group, metric: str, outcomes: Sequence[Outcome]) -> GroupFigure:
    if metric == ICAT:
        return _idealized(group, outcomes)
    whole = _measure(group.name, metric, [outcomes[index] for index in group.items])
    if len(group.strata) < 2:
        return whole
    means = [_measure("", metric, [outcomes[index] for index in stratum]).value for stratum in group.strata]
    means = [value for value in means if not math.isnan(value)]
    return replace(whole, value=math.fsum(means) / len(means) if means else NAN, low=NAN, high=NAN)


def _measure(group: str, metric: str, outcomes: Sequence[Outcome]) -> GroupFigure:
    added = [value for value in (credit(outcome, metric) for outcome in outcomes) if not math.isnan(value)]
    items, tied = len(added), sum(outcome.tied for outcome in outcomes)
    value = math.fsum(added) / items if items else NAN
    low, high = wilson_interval(round(sum(added)), items) if items and is_share(metric) else (NAN, NAN)
    return GroupFigure(group, metric, value, low, high, items, tied)


def is_share(metric: str) -> bool:
    """Returns whether a metric is a share of the items, which has Wilson's interval."""
    return metric == "accuracy" or metric.startswith("p@")


def compare_published(
    reproduction: Reproduction, model: Model, found: Sequence[GroupFigure], *, as_declared: bool = True
) -> list[ComparedFigure]:
    """Returns each published figure of a reproduction beside the model's own; they are compared only if it was asked
    `as_declared`."""
    by_name = {(measure.group, measure.metric): measure for measure in found}
    verdicts = []
    for published in reproduction.published:
        measure = by_name.get((published.group, published.metric))
        value = measure.value if measure is not None else NAN
        verdict = _verdict(published, model, measure)
        if not as_declared and verdict in (REPRODUCED, DIFFERS):
            verdict = "not compared: ranks among another vocabulary"
        verdicts.append(ComparedFigure(published, short_name(model), value, verdict))
    return verdicts


def _verdict(published: PublishedFigure, model: Model, measure: GroupFigure | None) -> str:
    if not same_weights(published, model):
        known = published.weights or published.shape or published.model not in (short_name(model), model.source)
        return "another model" if known else "not compared: a name alone (give weights)"
    if measure is None or not measure.items:
        return "not measured"
    if published.items is not None and published.items != measure.items:
        return f"not compared: {measure.items} items of {published.items}"
    # The published figure is rounded, and so is the sum of it and its tolerance in binary.
    return REPRODUCED if abs(measure.value - published.value) <= published.tolerance + 1e-9 else DIFFERS


def same_weights(published: PublishedFigure, model: Model) -> bool:
    """Returns whether a figure is about a model: by the digest of its weights where it is given.

    Else the server read it from the hub under that name, and it has the published shape and number of parameters, where these
    are given, and was not compressed. The name of a folder says nothing about the weights in it.
    """
    if published.weights:
        return model.weights_digest == published.weights
    shape = all(getattr(model, name) in allowed for name, allowed in published.shape.items())
    whole = model.precision in UNCHANGED and not model.compression
    return model.source == published.model and bool(model.revision) and shape and whole


def differences(
    reproduction: Reproduction, items: Sequence[Item], outcomes: Sequence[Outcome], baseline: Sequence[Outcome]
) -> tuple[Difference, ...]:
    """Returns the differences of the whole reproduction, then of each group, for each metric; none if the models share no item.

    Differences are taken item by item, and items are drawn with replacement; where the figure is a mean over groups, they are
    drawn within each. The seed is always the same, so that a reproduction gives the same intervals each time.
    """
    both = [not one.skipped and not other.skipped for one, other in zip(outcomes, baseline, strict=True)]
    if not any(both):
        return ()
    groups = groups_of(reproduction, items, both.__getitem__)
    metrics = [metric for metric in reproduction.metrics if metric != ICAT]
    return tuple(_difference(group, metric, outcomes, baseline) for metric in metrics for group in groups)


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
