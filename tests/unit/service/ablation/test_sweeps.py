"""The order of a sweep's events, and which sets a curve removes, for values from a table. No model, no engine."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from bertscope_service.ablation import sweep as sweep_module
from bertscope_service.ablation.evaluation import Change, Values
from bertscope_service.ablation.sweep import Sweep, verdict
from bertscope_service.ablation.sweep_plan import Effect, Event, Greedy, Order, Point, Start, Summary, SweepQuery
from bertscope_service.analyses.interventions import Interventions, Mode
from bertscope_service.analyses.metrics import Bootstrap, Metric, MetricEffect
from bertscope_service.analyses.statistics import Comparison
from bertscope_service.encoders.base import HeadSet, Shape

pytestmark = pytest.mark.asyncio
Removed = frozenset[tuple[int, int]]
A, B, C, D, E = (((layer, (head,)),) for layer, head in ((0, 0), (0, 1), (1, 0), (1, 1), (2, 0)))
SETS: tuple[HeadSet, ...] = (A, B, C, D, E)


@dataclass
class Table:
    """An evaluation whose values depend on nothing but which heads of a 3 x 4 model are zero."""

    values: Callable[[Removed], Any]
    """[metrics, items]."""
    metrics: tuple[Metric, ...] = (Metric.LOSS,)
    pruned: dict[int, tuple[int, ...]] = field(default_factory=dict)
    change: Change = field(default_factory=lambda: Change(Mode.ZERO))
    layer_passes: int = 0
    full_layer_passes: int = 0
    asked: list[Removed] = field(default_factory=list)
    closed: int = 0
    bulk: Any = None

    @property
    def objective(self) -> Any:
        items = np.asarray(self.values(frozenset())).shape[1]
        return SimpleNamespace(metrics=self.metrics, items=items, skipped=2, truncated=3, pieces=4)

    @property
    def encoder(self) -> Any:
        return SimpleNamespace(shape=Shape("bert", 3, 4, 8, 100, 64, 0, pruned=self.pruned))

    async def baseline(self, interventions: Interventions) -> Values:
        return await self.whole(interventions)

    async def whole(self, interventions: Interventions) -> Values:
        removed = frozenset((int(layer), int(head)) for layer, head in np.argwhere(interventions.keep == 0))
        self.asked.append(removed)
        return np.asarray(self.values(removed), dtype=np.float64)

    async def changed(
        self, interventions: Interventions, sets: Iterable[HeadSet]
    ) -> AsyncGenerator[tuple[HeadSet, Values], None]:
        try:
            for heads in sorted(sets):
                await asyncio.sleep(0)
                yield heads, await self.whole(interventions.change(heads, Mode.ZERO))
        finally:
            self.closed += 1


def sweep(
    table: Table, greedy: Greedy | None = None, sets: tuple[HeadSet, ...] = SETS, done: tuple[HeadSet, ...] = ()
) -> Sweep:
    query = SweepQuery(sets, Mode.ZERO, 1.0, Bootstrap(resamples=100), 1 << 20, greedy, done)
    return Sweep(table, query, Interventions.none(3, 4))  # type: ignore[arg-type]


async def run(
    table: Table, greedy: Greedy | None = None, sets: tuple[HeadSet, ...] = SETS, done: tuple[HeadSet, ...] = ()
) -> list[Event]:
    return [event async for event in sweep(table, greedy, sets, done).events()]


async def added(table: Table, greedy: Greedy, sets: tuple[HeadSet, ...] = SETS) -> list[tuple[HeadSet, ...]]:
    """The sets of each point."""
    start, *points, summary = await run(table, greedy, sets)
    assert isinstance(start, Start) and isinstance(summary, Summary)
    assert start.total == len(points)
    assert all(isinstance(point, Point) for point in points)
    return [point.added for point in points if isinstance(point, Point)]


def weighted(weights: dict[HeadSet, float], items: int = 6) -> Callable[[Removed], list[list[float]]]:
    """Each set adds its weight to the mean loss, and a little more or less to each item."""
    shares = np.linspace(0.9, 1.1, items) if items > 1 else np.ones(1)

    def values(removed: Removed) -> list[list[float]]:
        weight = sum(weight for heads, weight in weights.items() if heads_of(heads) <= removed)
        return [(1.0 + weight * shares).tolist()]

    return values


def heads_of(heads: HeadSet) -> Removed:
    return frozenset((layer, head) for layer, numbers in heads for head in numbers)


WEIGHTS = {A: 5.0, B: -1.0, C: 0.5, D: 0.25, E: -2.0}


async def test_events_are_in_order() -> None:
    table = Table(weighted(WEIGHTS))
    start, *effects, summary = await run(table)
    assert start == Start(((Metric.LOSS, 1.0),), 5, 6, 2, 3, 4, Bootstrap(resamples=100))
    assert [effect.heads for effect in effects if isinstance(effect, Effect)] == sorted(SETS)
    moved = [effect.metrics[0].difference for effect in effects if isinstance(effect, Effect)]
    assert moved == pytest.approx([5.0, -1.0, 0.5, 0.25, -2.0])
    compared = Comparison(table.metrics, np.array(table.values(frozenset())), Bootstrap(resamples=100))
    for effect in effects:
        assert isinstance(effect, Effect)
        assert [*effect.metrics] == [*compared.effects(np.array(table.values(heads_of(effect.heads))))]
    assert isinstance(summary, Summary)
    # All items move much alike, so that no interval holds 0. A lower loss is better.
    assert (summary.helped, summary.hurt) == (2, 3)
    assert table.asked[0] == frozenset()
    assert table.closed == 1


async def test_events_come_as_they_are_measured() -> None:
    table = Table(weighted(WEIGHTS))
    events = sweep(table).events()
    for asked in (1, 2, 3):
        await anext(events)
        assert len(table.asked) == asked
    await events.aclose()
    assert table.closed == 1
    assert len(table.asked) == 3


@pytest.mark.parametrize("order", [Order.EFFECT, Order.BEST_REMAINING])
async def test_the_least_harmful_goes_first(order: Order) -> None:
    assert await added(Table(weighted(WEIGHTS)), Greedy(order, 1, 5, None)) == [(), (E,), (B,), (D,), (C,), (A,)]


async def test_a_gain_is_the_other_way_round() -> None:
    table = Table(weighted(WEIGHTS), metrics=(Metric.ACCURACY,))
    assert await added(table, Greedy(Order.EFFECT, 1, 5, None)) == [(), (A,), (C,), (D,), (B,), (E,)]


@pytest.mark.parametrize("metric", [Metric.ACCURACY, None, Metric.LOSS])
async def test_the_metric_that_decides(metric: Metric | None) -> None:
    """Loss and accuracy disagree; the first one is the default."""
    table = Table(lambda removed: weighted(WEIGHTS)(removed) * 2, metrics=(Metric.LOSS, Metric.ACCURACY))
    first = (A,) if metric is Metric.ACCURACY else (E,)
    assert (await added(table, Greedy(Order.EFFECT, 1, 1, metric)))[1] == first


def rank(monkeypatch: pytest.MonkeyPatch, weights: dict[HeadSet, float]) -> None:
    """Let the ranking find these importances, and nothing for other heads."""
    importance = np.zeros((3, 4))
    for heads, weight in weights.items():
        ((layer, (head,)),) = heads
        importance[layer, head] = weight

    async def ranked(*_: object) -> Any:
        return SimpleNamespace(importance=importance)

    monkeypatch.setattr(sweep_module, "rank_heads", ranked)


@pytest.mark.parametrize("order", list(Order))
async def test_equal_ones_stay_as_they_were_given(monkeypatch: pytest.MonkeyPatch, order: Order) -> None:
    """Though values come layer by layer."""
    weights = {A: 1.0, B: 1.0, C: 0.0, D: 1.0, E: 0.0}
    rank(monkeypatch, weights)
    sets = (D, E, B, C, A)
    for step in (1, 2):
        points = await added(Table(weighted(weights)), Greedy(order, step, 5, None), sets)
        assert [heads for one in points for heads in one] == [E, C, D, B, A]


async def test_importance_is_the_sum_over_a_set(monkeypatch: pytest.MonkeyPatch) -> None:
    both: HeadSet = ((0, (1,)), (1, (0,)))
    rank(monkeypatch, {A: 0.5, B: 0.3, C: 0.3, D: 0.7})
    points = await added(Table(weighted({})), Greedy(Order.IMPORTANCE, 1, 4, None), (D, both, A, B))
    assert points == [(), (B,), (A,), (both,), (D,)]


async def test_best_remaining_measures_no_point_twice() -> None:
    """Each step's winner was measured on top of what is removed."""
    table = Table(weighted(WEIGHTS))
    await added(table, Greedy(Order.BEST_REMAINING, 1, 5, None))
    assert len(table.asked) == 1 + 15


async def test_sets_that_are_done_are_left_out() -> None:
    """The rest is as it was, bit for bit."""
    whole = await run(Table(weighted(WEIGHTS)))
    table = Table(weighted(WEIGHTS))
    start, *rest = await run(table, sets=(C, D, E), done=(A, B))
    assert isinstance(start, Start) and (start.total, start.done) == (3, 2)
    assert rest[:-1] == whole[3:-1]
    assert len(table.asked) == 1 + 3
    last = rest[-1]
    assert isinstance(last, Summary) and (last.helped, last.hurt) == (1, 2)


@pytest.mark.parametrize("order", list(Order))
@pytest.mark.parametrize(("step", "most", "gone"), [(1, 5, 1), (2, 5, 4), (3, 4, 3), (2, 4, 4)])
async def test_a_curve_goes_on_from_what_is_removed(
    monkeypatch: pytest.MonkeyPatch, order: Order, step: int, most: int, gone: int
) -> None:
    rank(monkeypatch, WEIGHTS)
    greedy = Greedy(order, step, most, None)
    whole = await run(Table(weighted(WEIGHTS)), greedy)
    removed = (E, B, D, C, A)[:gone]
    left = tuple(heads for heads in SETS if heads not in removed)
    start, *points, summary = await run(Table(weighted(WEIGHTS)), greedy, left, removed)
    assert isinstance(start, Start) and isinstance(summary, Summary)
    assert (start.total, start.done) == (len(points), gone)
    assert points == whole[2 + -(-gone // step) : -1]


async def test_shares_count_each_head_once_and_pruned_ones_never() -> None:
    sets: tuple[HeadSet, ...] = (((0, (0, 1)),), ((0, (1, 2)),), ((1, (0,)),), ((2, (3,)),))
    table = Table(weighted({heads: number for number, heads in enumerate(sets)}), pruned={1: (0, 1), 2: (0,)})
    _, *points, _ = await run(table, Greedy(Order.EFFECT, 1, 4, None), sets)
    assert [point.share_removed * 9 for point in points if isinstance(point, Point)] == pytest.approx([0, 2, 3, 3, 4])


@pytest.mark.parametrize(
    ("metric", "low", "high", "wanted"),
    [
        (Metric.LOSS, 0.1, 0.2, -1),
        (Metric.LOSS, -0.2, -0.1, 1),
        (Metric.LOSS, -0.1, 0.1, 0),
        (Metric.LOSS, 0.0, 0.1, 0),
        (Metric.LOSS, None, None, 0),
        (Metric.ACCURACY, 0.1, 0.2, 1),
        (Metric.ACCURACY, -0.2, -0.1, -1),
        (Metric.ACCURACY, -0.1, 0.0, 0),
        (Metric.RECIPROCAL_RANK, 0.1, 0.2, 1),
        (Metric.DIVERGENCE, 0.1, 0.2, 0),
    ],
)
async def test_verdicts(metric: Metric, low: float | None, high: float | None, wanted: int) -> None:
    assert verdict(MetricEffect(metric, 0.0, 0.0, low, high, None)) == wanted


class Pool:
    """Runs computations in a thread, and counts them."""

    works = 0

    async def compute(self, work: Callable[[], Any]) -> Any:
        self.works += 1
        return await asyncio.to_thread(work)


@pytest.mark.parametrize("greedy", [None, Greedy(Order.EFFECT, 1, 4, None)])
async def test_large_resamples_leave_the_loop_free(monkeypatch: pytest.MonkeyPatch, greedy: Greedy | None) -> None:
    """Beyond a bound they run in a thread, and give the same; the first point of a curve needs none."""
    inline = await run(Table(weighted(WEIGHTS)), greedy)
    monkeypatch.setattr(sweep_module, "INLINE_DRAWS", 10)
    table, pool = Table(weighted(WEIGHTS)), Pool()
    table.bulk = pool  # type: ignore[assignment]
    assert (await run(table, greedy))[1:-1] == inline[1:-1]
    assert pool.works == (4 if greedy else 5)
