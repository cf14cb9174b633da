"""Sweeps and greedy curves against a brute force that runs transformers anew for every union of sets."""

from collections.abc import Callable

import numpy as np
import pytest
from bertscope_service.ablation.sweep import Sweep
from bertscope_service.analyses.ablation import (
    Bootstrap,
    Effect,
    Event,
    Greedy,
    Mode,
    Order,
    Start,
    Summary,
    SweepQuery,
)
from bertscope_service.analyses.interventions import Interventions
from bertscope_service.encoders.base import HeadSet
from numpy.typing import NDArray

from tests.support.hosted import PLENTY, GoldObjective, Hosted, LabelObjective, Run, running
from tests.support.reference import HeadEdits
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


async def events(
    hosted: Hosted, objective: object, mode: Mode, greedy: Greedy | None, base: Interventions | None = None
) -> list[Event]:
    async with running(128) as engine:
        evaluation = Run(hosted, objective, mode).start(engine)
        query = SweepQuery(SETS, mode, evaluation.change.scale, Bootstrap(resamples=200), PLENTY, greedy)
        return [event async for event in Sweep(evaluation, query, base or hosted.untouched).events()]


@pytest.mark.slow
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


@pytest.mark.slow
async def test_evaluations_of_a_curve(masked_lm: Callable[[str], Hosted]) -> None:
    """n * (n + 1) / 2 for the best remaining of n; n and one for each point for the others, and a pass for the ranking."""
    hosted = masked_lm("bert")
    objective = GoldObjective(hosted.sequences)
    whole = hosted.encoder.shape.layers * objective.items
    for order, runs in ((Order.BEST_REMAINING, 21), (Order.EFFECT, 12), (Order.IMPORTANCE, 6)):
        *_, summary = await events(hosted, objective, Mode.ZERO, Greedy(order, 1, 6, None))
        assert isinstance(summary, Summary)
        assert summary.full_layer_passes == whole * (1 + runs)
