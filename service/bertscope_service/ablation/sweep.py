"""Sweeps: the effect of changing each set of heads, or the curve of removing one after another."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial

from bertscope_service.ablation.evaluation import Evaluation, Values
from bertscope_service.ablation.ranking import rank_heads
from bertscope_service.ablation.sweep_plan import Effect, Event, Greedy, Order, Point, Start, Summary, SweepQuery, head_count
from bertscope_service.analyses.interventions import Interventions
from bertscope_service.analyses.metrics import Metric, MetricEffect
from bertscope_service.analyses.statistics import Comparison
from bertscope_service.encoders.base import Encoder, HeadSet

INLINE_DRAWS = 1_000_000
"""Intervals from fewer draws (items times resamples) than this are computed on the loop."""


@dataclass
class Sweep:
    """One SweepHeads call: its evaluation, its query, and the interventions in all of its runs.

    `gradients` runs the same model with gradients, if the evaluation's encoder has none.
    """

    evaluation: Evaluation
    query: SweepQuery
    interventions: Interventions
    gradients: Encoder | None = None
    _comparison: Comparison = field(init=False)

    async def events(self) -> AsyncGenerator[Event, None]:
        """Yields the start, then effects or points as they are measured, then the summary."""
        began = time.perf_counter()
        objective, greedy = self.evaluation.objective, self.query.greedy
        baseline = await self.evaluation.baseline(self.interventions)
        self._comparison = Comparison(objective.metrics, baseline, self.query.bootstrap)
        scores = zip(objective.metrics, baseline.mean(axis=1).tolist(), strict=True)
        done = len(self.query.done)
        total = len(self.query.sets) if greedy is None else (not done) - -(greedy.max_removed - done) // greedy.step
        counts = objective.items, objective.skipped, objective.truncated, objective.pieces
        yield Start(tuple(scores), total, *counts, self.query.bootstrap, done)
        helped = hurt = 0
        async with aclosing(self._effects() if greedy is None else self._curve(greedy)) as measured:
            async for event in measured:
                if isinstance(event, Effect):
                    direction = verdict(event.metrics[0])
                    helped, hurt = helped + (direction > 0), hurt + (direction < 0)
                yield event
        passes = self.evaluation.layer_passes, self.evaluation.full_layer_passes
        yield Summary(helped, hurt, *passes, time.perf_counter() - began)

    async def _effects(self) -> AsyncGenerator[Effect, None]:
        async with aclosing(self.evaluation.changed(self.interventions, self.query.sets)) as measured:
            async for heads, values in measured:
                yield Effect(heads, await self._compare(values))

    async def _curve(self, greedy: Greedy) -> AsyncGenerator[Point, None]:
        """Yields points after every `step` sets; the first one is the baseline, unless an earlier call has sent it."""
        interventions, removed = self.interventions, list(self.query.done)
        if not removed:
            yield Point((), 0.0, self._comparison.unchanged())
        for heads in removed:
            interventions = interventions.change(heads, self.query.mode, self.query.scale)
        order = await self._order(greedy) if len(removed) < greedy.max_removed else None
        while len(removed) < greedy.max_removed:
            size = min(greedy.step, greedy.max_removed - len(removed))
            values = None
            if order is None:
                gone = set(removed)
                remaining = [heads for heads in self.query.sets if heads not in gone]
                harm, least = await self._harm(greedy, interventions, remaining)
                added = sorted(remaining, key=harm.__getitem__)[:size]
                values = least if size == 1 else None
            else:
                added, order = order[:size], order[size:]
            for heads in added:
                interventions = interventions.change(heads, self.query.mode, self.query.scale)
            removed += added
            if values is None:
                values = await self.evaluation.whole(interventions)
            yield Point(tuple(added), self._share(removed), await self._compare(values))

    async def _order(self, greedy: Greedy) -> list[HeadSet] | None:
        """Returns the remaining sets in the order of their removal; None if every step decides anew. Equal sets keep their
        order."""
        if greedy.order is Order.BEST_REMAINING:
            return None
        if greedy.order is Order.EFFECT:
            harm, _ = await self._harm(greedy, self.interventions, self.query.sets)
            return sorted(self.query.sets, key=harm.__getitem__)
        edits = self.interventions.edits(self.evaluation.change.means)
        ranking = await rank_heads(
            self.gradients or self.evaluation.encoder, self.evaluation.objective, edits, self.evaluation.bulk
        )
        return sorted(
            self.query.sets,
            key=lambda heads: sum(ranking.importance[layer, head] for layer, numbers in heads for head in numbers),
        )

    async def _harm(
        self, greedy: Greedy, interventions: Interventions, sets: Sequence[HeadSet]
    ) -> tuple[dict[HeadSet, float], Values]:
        """Measures how much worse the deciding metric gets with each set changed.

        Returns that by set, and all values of the least harmful set, the first of equals.
        """
        metrics = self.evaluation.objective.metrics
        which = metrics.index(greedy.metric or metrics[0])
        gain, places = metrics[which].gain, {heads: place for place, heads in enumerate(sets)}
        harm: dict[HeadSet, float] = {}
        least: tuple[float, int, Values] | None = None
        async with aclosing(self.evaluation.changed(interventions, sets)) as measured:
            async for heads, values in measured:
                harm[heads] = -gain * float(values[which].mean())
                if least is None or (harm[heads], places[heads]) < least[:2]:
                    least = harm[heads], places[heads], values
        if least is None:
            raise ValueError("no sets to choose from")
        return harm, least[2]

    async def _compare(self, values: Values) -> tuple[MetricEffect, ...]:
        if self._comparison.items * self.query.bootstrap.resamples <= INLINE_DRAWS:
            return self._comparison.effects(values)
        return await self.evaluation.bulk.compute(partial(self._comparison.effects, values))

    def _share(self, removed: list[HeadSet]) -> float:
        shape = self.evaluation.encoder.shape
        pruned = {(layer, head) for layer, heads in shape.pruned.items() for head in heads}
        return head_count(removed, pruned) / max(1, shape.layers * shape.heads - len(pruned))


def verdict(effect: MetricEffect) -> int:
    """Returns +1 if the interval says that a score got better, -1 if worse, else 0. A divergence always gives 0."""
    if effect.metric is Metric.DIVERGENCE or effect.low is None or effect.high is None:
        return 0
    rose = (effect.low > 0) - (effect.high < 0)
    return effect.metric.gain * rose
