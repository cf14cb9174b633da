"""What models lost: how far their predictions are from the baseline's, and what they keep of its scores."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.ablation import Bootstrap, Metric
from bertscope_service.analyses.agreement import Agreement, Logs, Question, Shared, Tally, distributions
from bertscope_service.analyses.objective import Objective
from bertscope_service.analyses.objectives.build import ObjectiveQuery
from bertscope_service.analyses.objectives.cloze_prompts import ClozePromptsObjective, ClozePromptsQuery
from bertscope_service.analyses.timings import Ratio, ratio_of_means
from bertscope_service.encoders.base import Encoder
from bertscope_service.engine.rows import Row
from bertscope_service.jobs.bulk import BulkRunner, within

DISTRIBUTION_BYTES = 64 * 1024 * 1024
"""Distributions of each model are kept up to this size at a time, or those of one text if they are larger."""

ROUNDING = 1e-5
"""Values of two models that differ relatively by no more are taken for the same: batches of another shape, or another library,
add up in another order."""


@dataclass(frozen=True, slots=True)
class Score:
    """See bertscope.v1.Score; `retained` is None for the baseline, and where there is nothing to divide by."""

    metric: Metric
    value: float
    retained: Ratio | None


@dataclass(frozen=True, slots=True)
class Contender:
    """A model, and the way to run rows on it behind everybody's interactive ones."""

    encoder: Encoder
    bulk: BulkRunner


async def measure_agreement(
    models: Sequence[Contender],
    baseline: int,
    questions: Sequence[Question],
    shared: Sequence[Shared],
    k: int,
    bootstrap: Bootstrap,
    tick: Callable[[float], None],
) -> list[Agreement | None]:
    """How far each model is from the baseline, which has none itself. `shared` says what of the vocabularies is compared;
    `tick` is told the part that is done.

    Raises FailedPrecondition for predictions that are not finite.
    """
    tallies = [None if index == baseline else Tally(k, common) for index, common in enumerate(shared)]
    if len(models) == 1:
        return [None]
    widest = 4 * max(max(model.encoder.shape.vocabulary_size, len(model.encoder.shape.labels)) for model in models)
    for part in within([question.places * widest for question in questions], DISTRIBUTION_BYTES):
        asked = questions[part]
        wanted = await _distributions(models[baseline], asked, baseline)
        for index, (model, tally) in enumerate(zip(models, tallies, strict=True)):
            if tally is not None:
                await asyncio.to_thread(tally.add, wanted, await _distributions(model, asked, index))
        tick(part.stop / len(questions))
    return [None if tally is None else await asyncio.to_thread(tally.agreement, bootstrap) for tally in tallies]


async def _distributions(model: Contender, questions: Sequence[Question], index: int) -> list[Logs]:
    rows = [Row(model.encoder, question.sequences[index], question.observers[index]) for question in questions]
    results = await model.bulk.run(rows)
    return [distributions(*each) for each in zip(questions, results, strict=True)]


def build_objectives(query: ObjectiveQuery, build: Sequence[Callable[[ObjectiveQuery], Objective]]) -> list[Objective]:
    """The same objective for every model; `build` makes one's. Takes seconds with many items.

    Prompts that one of them would leave out are left out for all. Raises InvalidArgument, which names the item's field.
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
    models: Sequence[Contender],
    baseline: int,
    objectives: Sequence[Objective],
    bootstrap: Bootstrap,
    tick: Callable[[float], None],
) -> list[tuple[Score, ...]]:
    """The scores of each model on its objective; all have the same items. `tick` is told the part that is done."""
    values = []
    for index, (model, objective) in enumerate(zip(models, objectives, strict=True)):
        values.append(await _values(model, objective))
        tick((index + 1) / len(models))
    scores = []
    for index, (objective, own) in enumerate(zip(objectives, values, strict=True)):
        wanted = None if index == baseline else values[baseline]
        scores.append(await asyncio.to_thread(_scores, objective.metrics, own, wanted, bootstrap))
    return scores


async def _values(model: Contender, objective: Objective) -> NDArray[np.float64]:
    """[metrics, items]."""
    sequences, probes = objective.sequences, objective.probes
    rows = model.bulk.results(
        [len(sequence) for sequence in sequences], lambda row: Row(model.encoder, sequences[row], probes[row])
    )
    async with aclosing(rows) as results:
        seen = [result async for result in results]
    return await asyncio.to_thread(objective.measure, seen)


def _scores(
    metrics: Sequence[Metric], values: NDArray[np.float64], baseline: NDArray[np.float64] | None, bootstrap: Bootstrap
) -> tuple[Score, ...]:
    return tuple(
        Score(metric, float(own.mean()), None if baseline is None else _retained(metric, own, baseline[index], bootstrap))
        for index, (metric, own) in enumerate(zip(metrics, values, strict=True))
    )


def _retained(metric: Metric, own: NDArray[np.float64], baseline: NDArray[np.float64], bootstrap: Bootstrap) -> Ratio | None:
    """Over 1 if the model is better."""
    own = np.where(np.isclose(own, baseline, rtol=ROUNDING, atol=0.0), baseline, own)
    return ratio_of_means(own, baseline, bootstrap) if metric.gain > 0 else ratio_of_means(baseline, own, bootstrap)
