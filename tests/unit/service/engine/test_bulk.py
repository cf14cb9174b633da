"""Many rows for one caller: order, bounds, flow control, and ends of every kind. No model, no clock."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from bertscope_service.encoders.state import State
from bertscope_service.engine.bulk import AHEAD_BATCHES, BulkRunner, within
from bertscope_service.engine.rows import Priority, Row
from bertscope_service.errors import Overloaded

from tests.support.fakes import SECONDS, Blocker, SumObserver
from tests.support.rig import Rig

pytestmark = pytest.mark.asyncio
BATCH = 10
AHEAD = AHEAD_BATCHES * BATCH


class BulkRig(Rig):
    """An engine with small batches. Fails a test that left an exception unread."""

    def __init__(self) -> None:
        super().__init__(batch_tokens=BATCH, queue_tokens=100)
        self.unread: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: self.unread.append(context))

    def bulk(self, deadline: float | None = None) -> BulkRunner:
        return BulkRunner(self.engine, self.encoder, "bulk", deadline)

    @property
    def tokens(self) -> float:
        """How many tokens wait."""
        return self.value("bertscope_queue_tokens", device="cpu")

    def dropped(self) -> float:
        return self.value("bertscope_rows_dropped_total", reason="cancelled")

    def groups(self, *lengths: list[int], observers: dict[int, SumObserver] | None = None) -> "Groups":
        return Groups(self, lengths, observers or {})

    async def idle(self) -> None:
        """Wait until all bulk rows ran: they leave in the order they came."""
        await asyncio.sleep(0)  # tasks that were made submit theirs
        await self.run([1], SumObserver(group="last"), client="bulk", priority=Priority.BULK, admitted=True)


@pytest_asyncio.fixture
async def rig() -> AsyncIterator[BulkRig]:
    rig = BulkRig()
    yield rig
    await rig.engine.close()
    assert rig.unread == []


@dataclass
class Groups:
    """Groups of rows that count how many were asked for."""

    rig: Rig
    lengths: tuple[list[int], ...]
    observers: dict[int, SumObserver]
    asked: int = 0

    def __iter__(self) -> Iterator[tuple[int, list[Row]]]:
        for number, lengths in enumerate(self.lengths):
            self.asked += 1
            yield number, [self.rig.row(length, self.observers.get(number), token=number) for length in lengths]


async def test_results_are_in_the_order_of_the_groups(rig: BulkRig) -> None:
    """Whatever their lengths: in the queue they are sorted by them."""
    lengths = [[9], [1, 7, 2], [3], [10, 1], [], [1], [30], [5, 5], [8], [2]] * 3
    found = [one async for one in rig.bulk().map(rig.groups(*lengths))]
    assert found == [(number, [float(number * length) for length in group]) for number, group in enumerate(lengths)]


async def test_groups_are_made_when_they_may_run(rig: BulkRig) -> None:
    """Never more than four batches wait, and not much less."""
    blocker, _ = await rig.block()
    groups = rig.groups(*[[4]] * 100)
    async with aclosing(rig.bulk().map(groups)) as results:
        first = asyncio.create_task(anext(results))
        for _ in range(20):
            await asyncio.sleep(0)
        assert rig.tokens == AHEAD
        assert groups.asked == AHEAD // 4 + 1
        blocker.release.set()
        assert await first == (0, [0.0])
        found = [key async for key, _ in results]
    assert found == list(range(1, 100))


async def test_a_group_larger_than_the_bound_runs_alone(rig: BulkRig) -> None:
    blocker, _ = await rig.block()
    groups = rig.groups([2], [50], [3], [4])
    async with aclosing(rig.bulk().map(groups)) as results:
        first = asyncio.create_task(anext(results))
        for _ in range(20):
            await asyncio.sleep(0)
        assert (rig.tokens, groups.asked) == (2, 2)
        blocker.release.set()
        assert await first == (0, [0.0])
        assert [key async for key, _ in results] == [1, 2, 3]


async def test_a_slow_reader_stops_new_rows(rig: BulkRig) -> None:
    groups = rig.groups(*[[4]] * 100)
    async with aclosing(rig.bulk().map(groups)) as results:
        for taken in range(1, 6):
            assert (await anext(results))[0] == taken - 1
            await rig.idle()
            # Ten groups are four batches; one more was asked for and found too large.
            assert groups.asked == 10 + taken
            assert rig.value("bertscope_batch_rows_sum", device="cpu") - taken == 10 + taken - 1


async def test_closing_drops_what_waits(rig: BulkRig) -> None:
    """At a result, while others wait behind a batch at work."""
    blocker, ran = Blocker(), list[State]()
    observers = {1: SumObserver(blocker, group="blocker")} | dict.fromkeys(range(2, 50), SumObserver(ran.append, group="later"))
    groups = rig.groups(*[[4]] * 50, observers=observers)
    results = rig.bulk().map(groups)
    assert await anext(results) == (0, [0.0])
    assert await asyncio.to_thread(blocker.entered.wait, SECONDS)
    await results.aclose()
    assert rig.tokens == 0
    assert rig.dropped() == 8
    blocker.release.set()
    await rig.idle()
    assert ran == []


def broken(_: State) -> None:
    raise ValueError("broken")


async def test_an_error_ends_the_rest(rig: BulkRig) -> None:
    """Groups before it are answered, those behind it dropped; errors of several groups are told once."""
    ran: list[State] = []
    observers = {number: SumObserver(broken, group=number) for number in (2, 3, 5)}
    observers |= dict.fromkeys(range(20, 100), SumObserver(ran.append))
    groups, found = rig.groups(*[[4]] * 100, observers=observers), list[int]()

    async def read() -> None:
        async for key, _ in rig.bulk().map(groups):
            found.append(key)

    with pytest.raises(ValueError, match="broken"):
        await read()
    assert found == [0, 1]
    assert groups.asked <= 13
    assert rig.tokens == 0
    await rig.idle()
    assert ran == []


async def test_only_the_first_rows_can_be_turned_away(rig: BulkRig) -> None:
    blocker, other = await rig.block(*[10] * 8)
    assert rig.tokens == 80
    with pytest.raises(Overloaded) as caught:
        [one async for one in rig.bulk().map(rig.groups([21]))]
    assert caught.value.reason == "QUEUE_FULL"
    assert rig.tokens == 80
    groups = rig.groups(*[[10]] * 10)
    async with aclosing(rig.bulk().map(groups)) as results:
        first = asyncio.create_task(anext(results))
        await asyncio.sleep(0.01)
        # The first ten tokens fit; the others are let in beyond the limit.
        assert rig.tokens == 80 + AHEAD
        blocker.release.set()
        assert await first == (0, [0.0])
        assert [key async for key, _ in results] == list(range(1, 10))
    assert len(await other) == 9


async def test_nothing_follows_rows_that_were_turned_away(rig: BulkRig) -> None:
    blocker, other = await rig.block(*[10] * 8)
    mapped = asyncio.create_task(anext(rig.bulk().map(rig.groups([21], [21], [4]))))
    waited = set()
    while not mapped.done():
        await asyncio.sleep(0)
        waited.add(rig.tokens)
    with pytest.raises(Overloaded):
        await mapped
    assert waited == {80}
    assert rig.dropped() == 0
    blocker.release.set()
    await other


async def test_slices_are_about_a_batch(rig: BulkRig) -> None:
    lengths = [4, 4, 4, 11, 1, 9, 2]
    assert [lengths[part] for part in rig.bulk().slices(lengths)] == [[4, 4], [4], [11], [1, 9], [2]]
    assert list(within([], 10)) == []
    assert list(within([3], 0)) == [slice(0, 1)]
