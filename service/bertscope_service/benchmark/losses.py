"""Losses of models: divergence from the baseline's predictions, and the retained part of its scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.metrics import Bootstrap, Metric
from bertscope_service.analyses.objectives.base import Objective
from bertscope_service.analyses.objectives.build import ObjectiveQuery
from bertscope_service.analyses.objectives.cloze_prompts import ClozePromptsObjective, ClozePromptsQuery
from bertscope_service.benchmark.agreement import Agreement, Logs, Question, Shared, Tally, distributions
from bertscope_service.benchmark.timings import Ratio, ratio_of_means, ratio_of_proportions
from bertscope_service.encoders.base import Encoder
from bertscope_service.engine.bulk import BulkRunner
from bertscope_service.engine.rows import Row
from bertscope_service.groups import within

DISTRIBUTION_BYTES = 64 * 1024 * 1024
"""Maximum size of each model's distributions that are kept at a time, bytes, or those of one text if they are larger."""

ROUNDING = 1e-5
"""Values of two models with at most this relative difference count as equal: other batch shapes and libraries round
differently."""


@dataclass(frozen=True, slots=True)
class Score:
    """The score of a model; see bertscope.v1.Score. `retained` is None for the baseline and where the divisor is 0."""

    metric: Metric
    value: float
    retained: Ratio | None


@dataclass(frozen=True, slots=True)
class ScoredModel:
    """A model, and a runner for its rows that yields to interactive ones."""

    encoder: Encoder
    bulk: BulkRunner


async def measure_agreement(
    models: Sequence[ScoredModel],
    baseline: int,
    questions: Sequence[Question],
    shared: Sequence[Shared],
    k: int,
    bootstrap: Bootstrap,
    tick: Callable[[float], None],
) -> list[Agreement | None]:
    """Measures the agreement of each model with the baseline; the baseline's own is None.

    `shared` are the compared pieces of the vocabularies; `tick` receives the finished part, 0 to 1. Raises FailedPrecondition
    for predictions that are not finite.
    """
    tallies = [None if index == baseline else Tally(k, common) for index, common in enumerate(shared)]
    if len(models) == 1:
        return [None]
    widest = 4 * max(max(model.encoder.shape.vocabulary_size, len(model.encoder.shape.label_names)) for model in models)
    for part in within([question.places * widest for question in questions], DISTRIBUTION_BYTES):
        asked = questions[part]
        wanted = await _distributions(models[baseline], asked, baseline)
        for index, (model, tally) in enumerate(zip(models, tallies, strict=True)):
            if tally is not None:
                own = await _distributions(model, asked, index)
                await model.bulk.compute(partial(tally.add, wanted, own))
        tick(part.stop / len(questions))
    return [
        None if tally is None else await model.bulk.compute(partial(tally.agreement, bootstrap))
        for model, tally in zip(models, tallies, strict=True)
    ]


async def _distributions(model: ScoredModel, questions: Sequence[Question], index: int) -> list[Logs]:
    rows = [Row(model.encoder, question.sequences[index], question.observers[index]) for question in questions]
    results = await model.bulk.run(rows)
    return [distributions(*each) for each in zip(questions, results, strict=True)]


def build_objectives(query: ObjectiveQuery, build: Sequence[Callable[[ObjectiveQuery], Objective]]) -> list[Objective]:
    """Builds the same objective for every model; each `build` makes one. Takes seconds with many items.

    Prompts that one model leaves out are left out for all. Raises InvalidArgument, which names the item's field.
    """
    objectives = [make(query) for make in build]
    if not isinstance(query, ClozePromptsQuery) or len({objective.skipped for objective in objectives}) == 1 == len(build):
        return objectives
    kept = [set(one.kept) for one in objectives if isinstance(one, ClozePromptsObjective)]
    common = set.intersection(*kept)
    if all(own == common for own in kept):
        return objectives
    prompts = tuple(prompt for index, prompt in enumerate(query.prompts) if index in common)
    return [make(replace(query, prompts=prompts)) for make in build]


async def measure_scores(
    models: Sequence[ScoredModel],
    baseline: int,
    objectives: Sequence[Objective],
    bootstrap: Bootstrap,
    tick: Callable[[float], None],
) -> list[tuple[Score, ...]]:
    """Measures the scores of each model on its objective; all have the same items. `tick` receives the finished part, 0 to
    1."""
    values = []
    for index, (model, objective) in enumerate(zip(models, objectives, strict=True)):
        values.append(await _values(model, objective))
        tick((index + 1) / len(models))
    scores = []
    for index, (objective, own) in enumerate(zip(objectives, values, strict=True)):
        wanted = None if index == baseline else values[baseline]
        scores.append(await models[index].bulk.compute(partial(_scores, objective.metrics, own, wanted, bootstrap)))
    return scores


async def _values(model: ScoredModel, objective: Objective) -> NDArray[np.float64]:
    """Returns a model's values [metrics, items]."""
    sequences, observers = objective.sequences, objective.observers
    rows = model.bulk.results(
        [len(sequence) for sequence in sequences], lambda row: Row(model.encoder, sequences[row], observers[row])
    )
    async with aclosing(rows) as results:
        seen = [result async for result in results]
    return await model.bulk.compute(partial(objective.measure, seen))


def _scores(
    metrics: Sequence[Metric], values: NDArray[np.float64], baseline: NDArray[np.float64] | None, bootstrap: Bootstrap
) -> tuple[Score, ...]:
    return tuple(
        Score(metric, float(own.mean()), None if baseline is None else _retained(metric, own, baseline[index], bootstrap))
        for index, (metric, own) in enumerate(zip(metrics, values, strict=True))
    )


def _retained(metric: Metric, own: NDArray[np.float64], baseline: NDArray[np.float64], bootstrap: Bootstrap) -> Ratio | None:
    """Returns the retained part of the baseline's score, over 1 if the model is better."""
    own = np.where(np.isclose(own, baseline, rtol=ROUNDING, atol=0.0), baseline, own)
    if metric is Metric.ACCURACY:
        return ratio_of_proportions(own, baseline, bootstrap.confidence)
    if metric is Metric.SCORE_DIFFERENCE and baseline.mean() <= 0:
        return None  # The baseline prefers the wrong sentences: there is nothing to keep a share of.
    return ratio_of_means(own, baseline, bootstrap) if metric.gain > 0 else ratio_of_means(baseline, own, bootstrap)
