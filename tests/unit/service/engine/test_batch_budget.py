"""Batches are as large as a time takes, going by the last ones: bulk and interactive ones. No model; the clock is ours."""

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import pytest_asyncio
from bertscope_service.encoders.state import State
from bertscope_service.engine import runs as runs_module
from bertscope_service.engine.engine import Engine
from bertscope_service.engine.limits import Limits
from bertscope_service.engine.rate_estimate import (
    BATCH_SECONDS,
    KNOWN_BATCHES,
    MIN_BATCH_TOKENS,
    NOMINAL_TOKEN_SECONDS,
    RateEstimate,
)
from bertscope_service.engine.rows import Job, Priority, Row
from bertscope_service.observability.metrics import Metrics

from tests.support.fakes import FakeEncoder, SumObserver, sequence

pytestmark = pytest.mark.asyncio
BATCH = 1000


class Rig:
    """An engine whose batches take as long as `speed` says, in tokens per second."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.speed = 4000.0
        self.batches: list[int] = []
        self._now = 0.0
        clock = SimpleNamespace(perf_counter=self._tick)
        monkeypatch.setattr(runs_module, "time", clock)
        self.limits = Limits(batch_tokens=BATCH, queue_tokens=1 << 20)
        self.metrics = Metrics()
        self.engine = Engine(lambda _: self.limits, self.metrics)

    def _tick(self) -> float:
        self._now += 1e-9
        return self._now

    def seen(self, state: State) -> None:
        self.batches.append(sum(state.lengths))
        self._now += sum(state.lengths) / self.speed

    async def run(
        self,
        encoder: FakeEncoder,
        count: int,
        *,
        priority: Priority = Priority.BULK,
        length: int = 10,
        group: object = None,
        observer: SumObserver | None = None,
    ) -> list[int]:
        """Tokens of the batches that so many rows ran in."""
        self.batches.clear()
        observer = observer or SumObserver(self.seen, group=group)
        rows = [Row(encoder, sequence(length), observer) for _ in range(count)]  # type: ignore[arg-type]
        await self.engine.run(rows, client="client", priority=priority)
        return list(self.batches)


@pytest_asyncio.fixture
async def rig(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Rig]:
    rig = Rig(monkeypatch)
    yield rig
    await rig.engine.close()


async def test_batches_take_a_twentieth_of_a_second(rig: Rig) -> None:
    encoder = FakeEncoder()
    first, *others = await rig.run(encoder, 200)
    assert first == 120
    assert set(others[:-1]) <= {200, 190}  # rounding may cost a row
    assert BATCH_SECONDS[Priority.BULK] * rig.speed == 200


async def test_batches_are_not_smaller_than_what_saturates_the_device(rig: Rig) -> None:
    """However slow small ones were: they take as long."""
    encoder, other = FakeEncoder(), FakeEncoder()
    rig.speed = 3.0
    rig.engine.note_saturation(encoder, 500)  # type: ignore[arg-type]
    for priority in Priority:
        assert set(await rig.run(encoder, 150, priority=priority)) == {500}
    assert await rig.run(other, 120) == [120] + [10] * 108  # a single one takes too long already


async def test_the_least_batch_of_a_slow_kind_takes_no_time_without_end(rig: Rig) -> None:
    """Four times as long as it should, and twice after an interactive one: few small ones waste less than others would wait."""
    encoder, rates = FakeEncoder(), RateEstimate()
    (job,) = [Job([Row(encoder, sequence(10), SumObserver())], client="a", priority=Priority.BULK, deadline=None)]  # type: ignore[arg-type]
    (row,) = job.rows
    assert [rates.batch_tokens(row, halved=halved) for halved in (False, True)] == [MIN_BATCH_TOKENS] * 2
    for rate, whole, half in ((8000, 400, 200), (4000, 200, MIN_BATCH_TOKENS), (1000, MIN_BATCH_TOKENS, 50), (100, 20, 5)):
        for _ in range(40):
            rates.note(encoder, Priority.BULK, row.pace, rate)  # type: ignore[arg-type]
        assert [rates.batch_tokens(row, halved=halved) for halved in (False, True)] == pytest.approx([whole, half], abs=1)


async def test_a_call_begins_with_the_rate_of_the_last_like_it(rig: Rig) -> None:
    """Though its rows share no batch with the other's."""
    encoder = FakeEncoder()

    class CallObserver(SumObserver):
        run: ClassVar[Any] = SumObserver.__dict__["run"]
        cost = "the same"

    for speed, first in ((20_000.0, 120), (4000.0, 1000)):
        rig.speed = speed
        assert (await rig.run(encoder, 300, observer=CallObserver(rig.seen, group=object())))[0] == pytest.approx(first, abs=10)


async def test_the_budget_follows_the_speed(rig: Rig) -> None:
    """Half of the way with each batch: a model slows down with longer rows or a busier machine, and recovers."""
    encoder = FakeEncoder()
    await rig.run(encoder, 100)
    rig.speed = 16000.0
    up = await rig.run(encoder, 400)
    assert up[0] <= 200 < up[1] < up[2] <= 800
    assert up[1] == pytest.approx(200 + 300, abs=10)
    assert up[2] == pytest.approx(500 + 150, abs=10)
    rig.speed = 4000.0
    down = await rig.run(encoder, 400)
    assert down[0] > down[1] > down[2] >= 190


async def test_kinds_of_rows_have_budgets_of_their_own(rig: Rig) -> None:
    """Those that run one layer say nothing about those that run all; new ones go by the slowest."""
    encoder = FakeEncoder()
    rig.speed = 4 * MIN_BATCH_TOKENS / BATCH_SECONDS[Priority.BULK]
    await rig.run(encoder, 400, group="all layers")
    rig.speed *= 100
    batches = await rig.run(encoder, 400, group="one layer")
    assert batches[0] == pytest.approx(4 * MIN_BATCH_TOKENS, abs=10)
    assert batches[1] == BATCH
    rig.speed /= 100
    assert set((await rig.run(encoder, 400, group="all layers"))[:-1]) <= {500, 510}


async def test_interactive_batches_take_a_fifth_of_a_second(rig: Rig) -> None:
    """And say nothing about bulk ones."""
    encoder = FakeEncoder()
    first, *others = await rig.run(encoder, 400, priority=Priority.INTERACTIVE)
    assert first == 120
    assert set(others[:-1]) <= {800, 790}
    assert BATCH_SECONDS[Priority.INTERACTIVE] * rig.speed == 800
    rig.speed = 1e6
    assert set((await rig.run(encoder, 300, priority=Priority.INTERACTIVE))[1:-1]) == {BATCH}
    assert (await rig.run(encoder, 100))[0] == 120


async def test_the_queue_takes_what_the_device_runs_in_its_time(rig: Rig) -> None:
    """By the batches that left others waiting, no less than is given, and no more than memory has room for."""
    rig.limits = Limits(batch_tokens=BATCH, queue_tokens=500, queue_seconds=2.0, most_queue_tokens=9000)
    encoder = FakeEncoder()
    assert await limit_after(rig, encoder, 1) == 500  # nothing waited behind it
    assert await limit_after(rig, encoder, 100) == pytest.approx(2 * rig.speed, rel=1e-3)
    rig.speed = 1e6
    assert await limit_after(rig, encoder, 100) == 9000
    rig.speed = 100.0
    assert await limit_after(rig, encoder, 700) == 500


async def limit_after(rig: Rig, encoder: FakeEncoder, rows: int) -> float | None:
    """The tokens that may wait once so many rows have run."""
    await rig.run(encoder, rows)
    return rig.metrics.registry.get_sample_value("bertscope_queue_limit_tokens", {"device": "cpu"})


def rows_of(encoder: FakeEncoder, *groups: object) -> list[Row]:
    """A row of each kind."""
    observers = [SumObserver(group=group) for group in groups]  # type: ignore[arg-type]
    rows = [Row(encoder, sequence(10), observer) for observer in observers]  # type: ignore[arg-type]
    Job(rows, client="client", priority=Priority.INTERACTIVE, deadline=None)
    return rows


async def test_a_token_is_charged_what_the_last_ones_took_and_expected_to_take_what_those_of_a_backlog_did() -> None:
    """Or what the best did, while there was no backlog. Nothing is expected of rows that never ran, and charges are a guess."""
    rates, encoder = RateEstimate(), FakeEncoder()
    row, unknown = rows_of(encoder, "known", "unknown")
    assert (rates.charge(row), rates.expect(row)) == (NOMINAL_TOKEN_SECONDS, 0.0)
    for rate in (1000.0, 200.0, 200.0):
        rates.note(encoder, Priority.INTERACTIVE, row.kind, rate)  # type: ignore[arg-type]
    assert rates.charge(row) == pytest.approx(1 / 400)
    assert rates.expect(row) == pytest.approx(1 / 1000)
    for rate in (500.0, 400.0):
        rates.note(encoder, Priority.INTERACTIVE, row.kind, rate, busy=True)  # type: ignore[arg-type]
    rates.note(encoder, Priority.INTERACTIVE, row.kind, 100.0)  # type: ignore[arg-type]
    assert rates.expect(row) == pytest.approx(1 / 480)
    assert (rates.charge(unknown), rates.expect(unknown)) == (rates.charge(row), 0.0)
    assert (rates.soonest([row] * 2), rates.soonest([unknown])) == (pytest.approx(20 / 480), 0.0)
    rates.note(encoder, Priority.INTERACTIVE, row.kind, 2000.0)  # type: ignore[arg-type]
    assert rates.soonest([row]) == pytest.approx(10 * rates.charge(row))


async def test_the_first_batches_of_a_kind_reject_nobody() -> None:
    """They may have been slow only because they were the first."""
    rates, encoder = RateEstimate(), FakeEncoder()
    row = rows_of(encoder, "new")[0]
    expected = []
    for rate in (1.0, *[1000.0] * KNOWN_BATCHES):
        expected.append(rates.expect(row))
        rates.note(encoder, Priority.INTERACTIVE, row.kind, rate, busy=True)  # type: ignore[arg-type]
    assert expected[:KNOWN_BATCHES] == [0.0] * KNOWN_BATCHES
    assert 0 < expected[KNOWN_BATCHES] < 0.01
