"""Metrics of answers about facts: P@k and MRR, consistency, negated and misprimed probes.

Petroni et al. 2019 (LAMA): means over the facts of a relation, then over relations. Elazar et al. 2021 (ParaRel): consistency.
Kassner and Schütze 2020: negated and misprimed probes. A metric is NaN where nothing was asked that it could be taken of.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple, get_args

from bertscope.questions.facts.answers import FactAnswer, FactRelation, FactResult, templates_of
from bertscope.values.choices import TemplateChoice
from bertscope.values.columns import named
from bertscope.values.display import ShownAsTable, record
from bertscope.values.intervals import wilson_interval
from bertscope.values.results import Provenance

__all__ = ["FactScores", "RelationKnowledge", "Share"]

CHOICES: dict[str, TemplateChoice] = {name: name for name in get_args(TemplateChoice)}
NAN = math.nan


class Share(NamedTuple):
    """A share with Wilson's score interval, 95 %."""

    value: float
    """The share, 0 to 1."""
    low: float
    """Lower end of the interval; NaN without one."""
    high: float
    """Upper end of the interval; NaN without one."""


@record
class RelationKnowledge:
    """The metrics of one relation. Shares are 0 to 1, and NaN where nothing was asked that they could be taken of."""

    relation: str
    """Its name."""
    facts: int
    """The facts that were asked."""
    skipped: Mapping[str, int]
    """The facts that were not, by reason."""
    ranked_among: int
    """The number of entries or candidates that objects were ranked among."""
    template: int | None
    """Index of the template that the next four are of; None for the mean over templates."""
    p_at_1: Share
    """Share of the facts of rank 1. The mean over templates has no interval."""
    p_at_10: Share
    """Share of the facts of rank 1 to 10."""
    mrr: float
    """Mean of 1 / rank."""
    prior_p_at_1: float
    """Share of the facts of rank 1 with a mask in place of the subject; NaN without `prior`."""
    consistency: float
    """Share of the pairs of templates with the same likeliest object, the mean over facts (Elazar et al. 2021)."""
    consistent_p_at_1: float
    """Share of the facts of rank 1 in every template that is not negated."""
    same_if_negated: float
    """Share of negated questions with the same likeliest object as the affirmed one: the first negated template goes with the
    first affirmed one, and so on; with the first where there is no such (Kassner and Schütze 2020)."""
    misprimed: float
    """Share of primed questions whose likeliest object is the prime, letter case ignored (Kassner and Schütze 2020)."""
    primed_p_at_1: float
    """Share of primed questions with a right object of rank 1."""
    unprimed_p_at_1: float
    """The same of these questions without their primes."""


SHARES = (
    *("prior_p_at_1", "consistency", "consistent_p_at_1", "same_if_negated", "misprimed"),
    *("primed_p_at_1", "unprimed_p_at_1"),
)
"""The metrics that are plain shares."""
NUMBERS = ("mrr", *SHARES)
COLUMNS = (
    *("relation", "facts", "skipped", "ranked_among", "template"),
    *("p_at_1", "p_at_1_low", "p_at_1_high", "p_at_10", "p_at_10_low", "p_at_10_high"),
)


@record
class FactScores(ShownAsTable):
    """The metrics of all relations. Macro-averages are means over the relations of which a fact was asked, as in LAMA."""

    _table = named(*COLUMNS, *NUMBERS)
    _whole = ("template",)

    relations: tuple[RelationKnowledge, ...]
    """The metrics of each relation."""
    template: TemplateChoice
    """The template that P@1, P@10 and MRR are of."""
    provenance: Provenance
    """Provenance of the answers."""

    def __getitem__(self, relation: str) -> RelationKnowledge:
        for each in self.relations:
            if each.relation == relation:
                return each
        raise KeyError(relation)

    @property
    def facts(self) -> int:
        """The facts that were asked."""
        return sum(each.facts for each in self.relations)

    @property
    def skipped(self) -> dict[str, int]:
        """The facts that were not asked, by reason."""
        return dict(sum((Counter(each.skipped) for each in self.relations), Counter[str]()))

    @property
    def p_at_1(self) -> float:
        """Macro-average of P@1."""
        return self.macro(lambda each: each.p_at_1.value)

    @property
    def p_at_10(self) -> float:
        """Macro-average of P@10."""
        return self.macro(lambda each: each.p_at_10.value)

    @property
    def mrr(self) -> float:
        """Macro-average of the mean reciprocal rank."""
        return self.macro(lambda each: each.mrr)

    def macro(self, metric: Callable[[RelationKnowledge], float]) -> float:
        """Returns the mean of a metric over relations, without those where it is NaN; NaN if it is everywhere."""
        return _mean(value for each in self.relations if not math.isnan(value := metric(each)))

    def _rows(self) -> Iterator[tuple[object, ...]]:
        """Yields the metrics of each relation, in the order of the table's columns."""
        for each in self.relations:
            named = each.relation, each.facts, sum(each.skipped.values()), each.ranked_among, each.template
            yield *named, *each.p_at_1, *each.p_at_10, *(getattr(each, name) for name in NUMBERS)


def relation_scores(
    relation: FactRelation, results: Iterable[FactResult], choice: TemplateChoice, ranked_among: int
) -> RelationKnowledge:
    """Returns the metrics of a relation from the answers about its facts."""
    every = list(results)
    asked = [result for result in every if result.answers]
    affirmed = relation.affirmed
    by_template = {template: [result.answer(template) for result in asked] for template in affirmed}
    chosen = _chosen(by_template, choice) if asked else []
    numbers = [_ranking(by_template[template]) for template in chosen]
    hits_at_1, hits_at_10, mrr = (_mean(column) for column in zip(*numbers, strict=True)) if numbers else (NAN, NAN, NAN)
    alone = len(chosen) == 1
    primed, unprimed, misled = _primed(asked, affirmed)
    priors = [answer.prior_rank for template in chosen for answer in by_template[template] if answer.prior_rank is not None]
    return RelationKnowledge(
        relation=relation.name,
        facts=len(asked),
        skipped=dict(Counter(result.skipped for result in every if result.skipped)),
        ranked_among=ranked_among,
        template=chosen[0] if alone else None,
        p_at_1=wilson(hits_at_1, len(asked)) if alone else Share(hits_at_1, NAN, NAN),
        p_at_10=wilson(hits_at_10, len(asked)) if alone else Share(hits_at_10, NAN, NAN),
        mrr=mrr,
        prior_p_at_1=_mean(rank == 1 for rank in priors),
        consistency=_consistency([*by_template.values()]),
        consistent_p_at_1=_consistent([*by_template.values()]),
        same_if_negated=_same_if_negated(relation, asked),
        misprimed=_mean(misled),
        primed_p_at_1=_mean(primed),
        unprimed_p_at_1=_mean(unprimed),
    )


def wilson(share: float, count: int) -> Share:
    """Returns a share of `count` with Wilson's score interval (1927)."""
    if not count:
        return Share(NAN, NAN, NAN)
    low, high = wilson_interval(round(share * count), count)
    return Share(share, low, high)


def _chosen(by_template: Mapping[int, Sequence[FactAnswer]], choice: TemplateChoice) -> list[int]:
    """Returns the templates that P@k are of."""
    if choice == "mean" or not by_template:
        return list(by_template)
    if choice == "first":
        return [next(iter(by_template))]

    def quality(template: int) -> tuple[float, float]:
        at_1, _, mrr = _ranking(by_template[template])
        return at_1, mrr

    return [max(by_template, key=quality)]


def _ranking(answers: Sequence[FactAnswer]) -> tuple[float, float, float]:
    """Returns P@1, P@10 and the mean of 1 / rank."""
    ranks = [answer.rank or math.inf for answer in answers]
    return _mean(rank == 1 for rank in ranks), _mean(rank <= 10 for rank in ranks), _mean(1 / rank for rank in ranks)


def _consistency(by_template: Sequence[Sequence[FactAnswer]]) -> float:
    """Returns the share of pairs of templates with the same likeliest object, over all facts."""
    return _mean(
        _top(one) == _top(other)
        for answers in zip(*by_template, strict=True)
        for one, other in combinations(answers, 2)
        if one.predictions and other.predictions
    )


def _consistent(by_template: Sequence[Sequence[FactAnswer]]) -> float:
    """Returns the share of facts of rank 1 in all of several templates."""
    if len(by_template) < 2:
        return NAN
    return _mean(all(answer.rank == 1 for answer in answers) for answers in zip(*by_template, strict=True))


def _same_if_negated(relation: FactRelation, asked: Sequence[FactResult]) -> float:
    affirmed = relation.affirmed
    negated = [index for index, template in enumerate(templates_of(relation)) if template.negated]
    if not affirmed:
        return NAN
    partners = [affirmed[place] if place < len(affirmed) else affirmed[0] for place in range(len(negated))]
    pairs = [
        (result.answer(plain), result.answer(denied))
        for result in asked
        for plain, denied in zip(partners, negated, strict=True)
    ]
    return _mean(_top(plain) == _top(denied) for plain, denied in pairs if plain.predictions and denied.predictions)


def _primed(asked: Sequence[FactResult], affirmed: Sequence[int]) -> tuple[list[bool], list[bool], list[bool]]:
    """Returns, for each primed question, whether rank 1 is right, whether it was without the prime, and whether the prime is
    the likeliest object."""
    primed, unprimed, misled = [], [], []
    for result in asked:
        for answer in result.answers:
            if answer.prime is not None and answer.template in affirmed:
                primed.append(answer.rank == 1)
                unprimed.append(result.answer(answer.template).rank == 1)
                if answer.predictions:
                    misled.append(_top(answer).casefold() == answer.prime.casefold())
    return primed, unprimed, misled


def _top(answer: FactAnswer) -> str:
    return answer.predictions[0].object


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found) if found else NAN
