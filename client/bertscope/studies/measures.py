"""Turns the outcomes of a study's items into figures, compares two models, and judges published figures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bertscope._display import short_repr
from bertscope.intervals import mcnemar, wilson_interval
from bertscope.models import Model, short_name
from bertscope.studies.asking import Outcome
from bertscope.studies.asking_facts import EXTRAS
from bertscope.studies.definition import Part, Published
from bertscope.studies.items import Item

NAN = math.nan
UNCHANGED = ("fp32", "bf16", "fp16")
"""Precisions of weights that may still be called by the name of their source."""


@dataclass(frozen=True)
class Measure:
    """One figure."""

    __repr__ = short_repr

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


@dataclass(frozen=True)
class Comparison:
    """Two models on the same items."""

    __repr__ = short_repr

    metric: str
    items: int
    """The items that both were asked."""
    only_model: int
    """The items that only the model has right."""
    only_baseline: int
    """The items that only the baseline has right."""
    p_value: float
    """McNemar's exact test, two-sided, of these two numbers."""


@dataclass(frozen=True)
class Verdict:
    """A published figure beside the figure of a model."""

    __repr__ = short_repr

    published: Published
    model: str
    """The model that was asked."""
    value: float
    """Its figure; NaN if there is none."""
    verdict: str
    """"reproduced", "differs", or why they are not compared."""


def credit(outcome: Outcome, metric: str) -> float:
    """Returns what an item adds to a metric, 0 to 1."""
    if metric == "accuracy":
        return float(outcome.right)
    if not outcome.rank:
        return 0.0
    if metric in EXTRAS:
        return outcome.extras.get(metric, NAN)
    return 1 / outcome.rank if metric == "mrr" else float(outcome.rank <= int(metric[2:]))


def measures(part: Part, items: Sequence[Item], outcomes: Sequence[Outcome]) -> list[Measure]:
    """Returns the figures of the whole part, then of each group in the order of the data, for each metric."""
    members: dict[tuple[int, str], list[Outcome]] = {}
    asked = [(item, outcome) for item, outcome in zip(items, outcomes, strict=True) if not outcome.skipped]
    for item, outcome in asked:
        for kind, group in enumerate(item.groups):
            members.setdefault((kind, group), []).append(outcome)
    by_kind = sorted(members, key=lambda each: each[0])  # Groups of the same kind are together.
    found: list[Measure] = []
    for metric in part.metrics:
        by_group = [_measure(key[1], metric, members[key]) for key in by_kind]
        whole = _measure("", metric, [outcome for _, outcome in asked])
        if part.mean == "groups" and by_group:
            mean = _mean_over_groups(by_group)
            whole = Measure("", metric, mean, NAN, NAN, whole.items, whole.tied)
        found += [whole, *by_group]
    return found


def _mean_over_groups(groups: Sequence[Measure]) -> float:
    values = [each.value for each in groups if not math.isnan(each.value)]
    return math.fsum(values) / len(values) if values else NAN


def _measure(group: str, metric: str, outcomes: Sequence[Outcome]) -> Measure:
    added = [value for value in (credit(outcome, metric) for outcome in outcomes) if not math.isnan(value)]
    items, tied = len(added), sum(outcome.tied for outcome in outcomes)
    value = math.fsum(added) / items if items else NAN
    low, high = wilson_interval(round(sum(added)), items) if items and is_share(metric) else (NAN, NAN)
    return Measure(group, metric, value, low, high, items, tied)


def is_share(metric: str) -> bool:
    """Returns whether a metric is a share of the items, which has Wilson's interval."""
    return metric == "accuracy" or metric.startswith("p@")


def compare(part: Part, outcomes: Sequence[Outcome], baseline: Sequence[Outcome]) -> Comparison | None:
    """Returns the comparison by the first metric that is a share; None if the models share no item."""
    metric = next(filter(is_share, part.metrics), None)
    if metric is None:
        return None
    found = Counter(
        (credit(one, metric) > 0, credit(other, metric) > 0)
        for one, other in zip(outcomes, baseline, strict=True)
        if not one.skipped and not other.skipped
    )
    only, lost = found[True, False], found[False, True]
    return Comparison(metric, found.total(), only, lost, mcnemar(lost, only)) if found else None


def judge(part: Part, model: Model, found: Sequence[Measure]) -> list[Verdict]:
    """Returns each published figure of a part beside the model's own."""
    by_name = {(measure.group, measure.metric): measure for measure in found}
    verdicts = []
    for published in part.published:
        measure = by_name.get((published.group, published.metric))
        value = measure.value if measure is not None else NAN
        verdicts.append(Verdict(published, short_name(model), value, _verdict(published, model, measure)))
    return verdicts


def _verdict(published: Published, model: Model, measure: Measure | None) -> str:
    if not same_weights(published, model):
        return "another model"
    if measure is None or not measure.items:
        return "not measured"
    if published.items is not None and published.items != measure.items:
        return f"not compared: {measure.items} items of {published.items}"
    # The published figure is rounded, and so is the sum of it and its tolerance in binary.
    return "reproduced" if abs(measure.value - published.value) <= published.tolerance + 1e-9 else "differs"


def same_weights(published: Published, model: Model) -> bool:
    """Returns whether a figure is about a model: by the digest of its weights where it is given, else by the hub's name."""
    if published.weights:
        return model.weights_digest == published.weights
    return model.source in (published.model, published.model.split("/")[-1]) and model.precision in UNCHANGED
