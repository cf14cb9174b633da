"""Sweeps and greedy curves against a brute force that runs transformers anew for every union of sets."""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import numpy as np
import pytest
import torch
from bertscope_service.ablation.sweep import Sweep
from bertscope_service.analyses.ablation import (
    Bootstrap,
    Effect,
    Event,
    Greedy,
    Metric,
    Mode,
    Order,
    Point,
    Start,
    Summary,
    SweepQuery,
)
from bertscope_service.analyses.interventions import Interventions
from bertscope_service.encoders.base import HeadSet
from numpy.typing import NDArray

from tests.support.hosted import PLENTY, SCALE, GoldObjective, Hosted, LabelObjective, Run, running
from tests.support.oracle import HeadEdits, edit
from tests.support.rounding import BOTH_SIDES

pytestmark = pytest.mark.asyncio
SETS: tuple[HeadSet, ...] = (
    ((2, (1,)),),
    ((0, (0,)),),
    ((1, (0, 1, 2, 3)),),
    ((0, (2,)), (2, (3,))),
    ((1, (2,)),),
    ((2, (0,)),),
)
"""Single heads, a layer, a set over two layers; one head is in two of them."""


class BruteForce:
    """What a curve must be, from the values of unions of sets."""

    def __init__(self, hosted: Hosted, objective: GoldObjective | LabelObjective, mode: Mode, base: HeadEdits) -> None:
        self.hosted, self.objective, self.mode, self.base = hosted, objective, mode, base
        self._known: dict[frozenset[HeadSet], NDArray[np.float64]] = {}

    def values(self, removed: tuple[HeadSet, ...]) -> NDArray[np.float64]:
        key = frozenset(removed)
        if key not in self._known:
            edits = dict(self.base)
            for heads in removed:
                edits |= self.hosted.edits(heads, self.mode)
            self._known[key] = self.objective.expected(self.hosted, edits)
        return self._known[key]

    def harm(self, removed: tuple[HeadSet, ...], which: int) -> float:
        return -self.objective.metrics[which].gain * float(self.values(removed)[which].mean())

    @cached_property
    def importance(self) -> NDArray[np.float64]:
        total = np.zeros((self.hosted.encoder.shape.layers, self.hosted.encoder.shape.heads))
        for row, sequence in enumerate(self.objective.sequences):
            keep = torch.ones(total.shape, dtype=torch.float64)
            for place, change in self.base.items():
                keep[place] = change.keep
            scores = self.hosted.oracle.scores(sequence, self.base, keep=keep.requires_grad_())
            total += torch.autograd.grad(self.objective.loss(row, scores), keep)[0].abs().numpy()
        return total / np.sqrt((total**2).sum(axis=1, keepdims=True))

    def order(self, greedy: Greedy) -> list[HeadSet]:
        which = 0 if greedy.metric is None else self.objective.metrics.index(greedy.metric)
        if greedy.order is Order.EFFECT:
            return sorted(SETS, key=lambda heads: self.harm((heads,), which))
        if greedy.order is Order.IMPORTANCE:
            return sorted(SETS, key=lambda heads: sum(self.importance[layer, list(one)].sum() for layer, one in heads))
        removed: tuple[HeadSet, ...] = ()
        while len(removed) < greedy.max_removed:
            left = sorted((one for one in SETS if one not in removed), key=lambda heads: self.harm((*removed, heads), which))
            removed = (*removed, *left[: greedy.step])
        return list(removed)

    def points(self, greedy: Greedy) -> list[tuple[HeadSet, ...]]:
        """What is removed at each point."""
        order = self.order(greedy)[: greedy.max_removed]
        counts = [*range(0, greedy.max_removed, greedy.step), greedy.max_removed]
        return [tuple(order[:count]) for count in counts]


async def events(
    hosted: Hosted, objective: object, mode: Mode, greedy: Greedy | None, base: Interventions | None = None
) -> list[Event]:
    async with running(128) as engine:
        evaluation = Run(hosted, objective, mode).start(engine)
        query = SweepQuery(SETS, mode, evaluation.change.scale, Bootstrap(resamples=200), PLENTY, greedy)
        return [event async for event in Sweep(evaluation, query, base or hosted.untouched).events()]


def based(hosted: Hosted) -> tuple[Interventions, HeadEdits]:
    """A head changed that no set changes, and one that two do."""
    interventions = hosted.untouched.change(((0, (1,)), (1, (2,))), Mode.SCALE, SCALE)
    return interventions, dict.fromkeys(((0, 1), (1, 2)), edit(Mode.SCALE, SCALE))


@pytest.mark.parametrize("architecture", ["bert", "modernbert"])
async def test_effects(masked_lm: Callable[[str], Hosted], architecture: str) -> None:
    hosted = masked_lm(architecture)
    objective = GoldObjective(hosted.sequences)
    start, *effects, summary = await events(hosted, objective, Mode.MEAN, None)
    brute = BruteForce(hosted, objective, Mode.MEAN, {})
    before = brute.values(())
    assert isinstance(start, Start) and isinstance(summary, Summary)
    assert (start.total, start.items) == (len(SETS), objective.items)
    assert [metric for metric, _ in start.baseline] == list(objective.metrics)
    np.testing.assert_allclose([score for _, score in start.baseline], before.mean(axis=1), rtol=1e-5)
    helped = hurt = 0
    assert len(effects) == len(SETS)
    for effect in effects:
        assert isinstance(effect, Effect)
        after = brute.values((effect.heads,))
        np.testing.assert_allclose([one.score for one in effect.metrics], after.mean(axis=1), rtol=1e-5)
        moved = (after - before).mean(axis=1)
        np.testing.assert_allclose([one.difference for one in effect.metrics], moved, rtol=0, atol=BOTH_SIDES)
        loss, accuracy = effect.metrics
        assert loss.low <= loss.difference <= loss.high
        assert (loss.mcnemar_p is None) and (accuracy.mcnemar_p is not None)
        helped, hurt = helped + (loss.high < 0), hurt + (loss.low > 0)
    assert {effect.heads for effect in effects} == set(SETS)
    assert (summary.helped, summary.hurt) == (helped, hurt)
    assert summary.layer_passes < summary.full_layer_passes == hosted.encoder.shape.layers * objective.items * (len(SETS) + 1)
    assert summary.seconds > 0


GREEDY = {
    "effect": Greedy(Order.EFFECT, 1, len(SETS), None),
    "effect in steps": Greedy(Order.EFFECT, 4, 5, None),
    "importance": Greedy(Order.IMPORTANCE, 1, 4, None),
    "importance in steps": Greedy(Order.IMPORTANCE, 3, 6, None),
    "best remaining": Greedy(Order.BEST_REMAINING, 1, len(SETS), None),
    "best remaining in steps": Greedy(Order.BEST_REMAINING, 2, 5, None),
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "classifies"), [*((name, False) for name in GREEDY), ("effect", True), ("importance", True)])
async def test_curves(
    masked_lm: Callable[[str], Hosted], classifier: Callable[[str], Hosted], name: str, classifies: bool
) -> None:
    hosted = (classifier if classifies else masked_lm)("bert")
    greedy = replace(GREEDY[name], metric=Metric.LOSS)
    objective = (LabelObjective if classifies else GoldObjective)(hosted.sequences)
    base, edits = based(hosted)
    start, *points, summary = await events(hosted, objective, Mode.ZERO, greedy, base)
    brute = BruteForce(hosted, objective, Mode.ZERO, edits)
    wanted = brute.points(greedy)
    assert isinstance(start, Start) and isinstance(summary, Summary)
    assert start.total == len(points) == len(wanted)
    assert (summary.helped, summary.hurt) == (0, 0)
    before, removed = brute.values(()), ()
    for point, union in zip(points, wanted, strict=True):
        assert isinstance(point, Point)
        removed = (*removed, *point.added)
        assert removed == union
        np.testing.assert_allclose([one.score for one in point.metrics], brute.values(union).mean(axis=1), rtol=1e-5)
        moved = (brute.values(union) - before).mean(axis=1)
        np.testing.assert_allclose([one.difference for one in point.metrics], moved, rtol=0, atol=BOTH_SIDES)
        heads = {(layer, head) for one in union for layer, numbers in one for head in numbers}
        assert point.share_removed == pytest.approx(len(heads) / 16)
    assert points[0].added == () and points[0].share_removed == 0
    assert all(one.difference == one.low == one.high == 0 for one in points[0].metrics)


async def test_evaluations_of_a_curve(masked_lm: Callable[[str], Hosted]) -> None:
    """n * (n + 1) / 2 for the best remaining of n; n and one for each point for the others, and a pass for the ranking."""
    hosted = masked_lm("bert")
    objective = GoldObjective(hosted.sequences)
    whole = hosted.encoder.shape.layers * objective.items
    for order, runs in ((Order.BEST_REMAINING, 21), (Order.EFFECT, 12), (Order.IMPORTANCE, 6)):
        *_, summary = await events(hosted, objective, Mode.ZERO, Greedy(order, 1, 6, None))
        assert isinstance(summary, Summary)
        assert summary.full_layer_passes == whole * (1 + runs)
