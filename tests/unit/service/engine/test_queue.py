"""Which rows form a batch, for any order of arrivals, departures and deadlines."""

from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from bertscope_service.encoders.base import Capabilities
from bertscope_service.engine import queue as queue_module
from bertscope_service.engine.queue import MOST_PLACES, PADDING_SHARE, PADDING_SLACK, RowQueue
from bertscope_service.engine.rows import Job, Priority, Row
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.fakes import FakeEncoder, OtherObserver, SumObserver, job_of

pytestmark = pytest.mark.asyncio
NOW = 1000.0
ENCODERS = (FakeEncoder(), FakeEncoder())
OBSERVERS = (SumObserver(), SumObserver(group=1), OtherObserver())
EXAMPLES = settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


@dataclass(frozen=True)
class Push:
    """A job arrives."""

    lengths: list[int]
    client: str
    priority: Priority
    encoder: int
    observer: int
    kept: bool
    deadline: float | None


@dataclass(frozen=True)
class Take:
    """The worker asks for a batch."""

    budget: int


@dataclass(frozen=True)
class Cancel:
    """The caller of one of the jobs goes away: before its rows are found, or with a word to the queue."""

    which: int
    discarded: bool


PUSHES = st.builds(
    Push,
    lengths=st.lists(st.integers(1, 70), min_size=1, max_size=12),
    client=st.sampled_from("abc"),
    priority=st.sampled_from(list(Priority)),
    encoder=st.sampled_from([0, 0, 0, 1]),
    observer=st.sampled_from([0, 0, 0, 1, 2]),
    kept=st.sampled_from([False, False, True]),
    deadline=st.sampled_from([None, None, None, NOW - 1, NOW, NOW + 1]),
)
STEPS = st.lists(
    st.one_of(PUSHES, st.builds(Take, st.integers(1, 300)), st.builds(Cancel, st.integers(0, 20), st.booleans())), max_size=25
)


class Checked:
    """A queue whose every answer is checked against a plain list of what waits."""

    def __init__(self) -> None:
        self.queue = RowQueue(lambda _: 0.0)  # bulk rows wait without end
        self.jobs: list[Job] = []
        self.waiting: list[Row] = []
        self.served: dict[str, float] = {}

    def push(self, job: Job) -> None:
        self.jobs.append(job)
        self.waiting += job.rows
        self.queue.push(job)
        self.check_counts()

    def check_counts(self) -> None:
        assert self.queue.rows == len(self.waiting)
        assert self.queue.tokens == sum(len(row.sequence) for row in self.waiting)

    def cancel(self, which: int, *, discarded: bool) -> None:
        if not self.jobs:
            return
        job = self.jobs[which % len(self.jobs)]
        job.cancelled = True
        if discarded:
            mine = [row for row in self.waiting if row.job is job]
            assert self.queue.remove(job) == len(mine)
            self.waiting = [row for row in self.waiting if row.job is not job]
            self.check_counts()

    def take(self, budget: int) -> list[Row]:
        taken = self.queue.take(budget, NOW)
        for row, reason in taken.dropped:
            assert row in self.waiting
            assert reason == row.job.abandoned(NOW) is not None
        gone = {id(row) for row, _ in taken.dropped} | {id(row) for row in taken.rows}
        assert len(gone) == len(taken.dropped) + len(taken.rows)
        alive = [row for row in self.waiting if row.job.abandoned(NOW) is None]
        assert bool(taken.rows) == bool(alive)
        if taken.rows:
            self.check_batch(taken.rows, alive, budget)
        self.waiting = [row for row in self.waiting if id(row) not in gone]
        self.check_counts()
        return taken.rows

    def check_batch(self, rows: list[Row], alive: list[Row], budget: int) -> None:
        assert all(row in alive for row in rows)
        assert len({row.kind for row in rows}) == 1
        assert len({row.job.priority for row in rows}) == 1
        assert rows[0].job.priority == min(row.job.priority for row in alive)
        lengths = [len(row.sequence) for row in rows]
        size, real = max(lengths) * len(rows), sum(lengths)
        assert size <= budget or len(rows) == 1
        assert size - real <= max(PADDING_SHARE * size, PADDING_SLACK)
        assert lengths == sorted(lengths)


@EXAMPLES
@given(steps=STEPS)
async def test_any_traffic(steps: list[Push | Take | Cancel]) -> None:
    """Budget, padding, keys, priorities and counters hold; every row leaves exactly once."""
    checked = Checked()
    for step in steps:
        if isinstance(step, Take):
            checked.take(step.budget)
        elif isinstance(step, Cancel):
            checked.cancel(step.which, discarded=step.discarded)
        else:
            checked.push(
                job_of(
                    ENCODERS[step.encoder],
                    step.lengths,
                    client=step.client,
                    priority=step.priority,
                    deadline=step.deadline,
                    observer=OBSERVERS[step.observer],
                    kept=step.kept,
                )
            )
    alive = [row for row in checked.waiting if row.job.abandoned(NOW) is None]
    drained: list[Row] = []
    while rows := checked.take(200):
        drained += rows
    assert Counter(map(id, drained)) == Counter(map(id, alive))
    assert checked.queue.take(200, NOW).rows == []
    assert (checked.queue.rows, checked.queue.tokens) == (0, 0)


async def test_an_idle_client_earns_no_credit() -> None:
    """Who comes late shares from then on, and does not first catch up."""
    queue = RowQueue()
    queue.push(job_of(ENCODERS[0], [10] * 300, client="early"))
    for _ in range(15):
        assert queue.take(100, NOW).rows
    queue.push(job_of(ENCODERS[0], [10] * 100, client="late", observer=OBSERVERS[2]))
    turns = [queue.take(100, NOW).rows[0].job.client for _ in range(10)]
    assert Counter(turns) == {"early": 5, "late": 5}


async def test_a_bulk_batch_after_an_interactive_one_is_half_as_large() -> None:
    """Its caller may wait already."""
    queue = RowQueue()
    queue.push(job_of(ENCODERS[0], [2] * 1000, priority=Priority.BULK))

    def tokens() -> int:
        taken = queue.take(1024, NOW, lambda _, *, halved: 100 if halved else 400)
        return sum(len(row.sequence) for row in taken.rows)

    assert tokens() == 400
    queue.push(job_of(ENCODERS[0], [6]))
    assert [tokens() for _ in range(4)] == [6, 100, 400, 400]


async def test_small_batches_may_have_any_padding() -> None:
    """Up to the size at which a device takes longer, another batch costs more than padding."""
    queue = RowQueue(saturation=lambda _: 640)
    queue.push(job_of(ENCODERS[0], [8, 64] * 10))
    batches = [[len(row.sequence) for row in queue.take(1000, NOW).rows] for _ in range(3)]
    assert batches == [[8] * 10, [64] * 10, []]
    queue.push(job_of(ENCODERS[0], [8, 64] * 5))
    assert [len(row.sequence) for row in queue.take(1000, NOW).rows] == [8] * 5 + [64] * 5


@pytest.mark.parametrize(("token_seconds", "batches"), [(1e-6, [[8] * 20 + [16] * 20, []]), (1e-4, [[8] * 20, [16] * 20])])
async def test_padding_that_takes_less_than_the_start_of_a_batch(token_seconds: float, batches: list[list[int]]) -> None:
    queue = RowQueue(lambda _: token_seconds)
    queue.push(job_of(ENCODERS[0], [8] * 20 + [16] * 20))
    assert [[len(row.sequence) for row in queue.take(1000, NOW).rows] for _ in range(2)] == batches


class PositionsObserver(SumObserver):
    """Reads some positions."""

    reads_places = False
    run: ClassVar[Any] = SumObserver.__dict__["run"]


@pytest.mark.parametrize(
    ("unpadded", "observer", "batches"),
    [
        (True, PositionsObserver(), [[8, 64] * 10]),
        (True, SumObserver(), [[8] * 10, [64] * 10]),
        (False, PositionsObserver(), [[8] * 10, [64] * 10]),
    ],
)
async def test_rows_without_padding_share_batches(unpadded: bool, observer: SumObserver, batches: list[list[int]]) -> None:
    """If neither the layers nor the observer compute on padding."""
    queue = RowQueue()
    queue.push(job_of(FakeEncoder(capabilities=Capabilities(unpadded=unpadded)), [8, 64] * 10, observer=observer))
    assert [[len(row.sequence) for row in queue.take(1000, NOW).rows] for _ in batches] == batches
    assert not queue.rows


@EXAMPLES
@given(lengths=st.lists(st.integers(1, 500), min_size=1, max_size=60), budget=st.integers(1, 2000))
async def test_batches_without_padding_are_bounded(lengths: list[int], budget: int) -> None:
    """By their real tokens, and by the places that they would take padded."""
    queue = RowQueue()
    encoder = FakeEncoder(capabilities=Capabilities(unpadded=True))
    queue.push(job_of(encoder, lengths, observer=PositionsObserver()))
    left = list(lengths)
    while rows := [len(row.sequence) for row in queue.take(budget, NOW).rows]:
        assert len(rows) == 1 or (sum(rows) <= budget and max(rows) * len(rows) <= MOST_PLACES * budget)
        left = list((Counter(left) - Counter(rows)).elements())
    assert not left


async def test_rows_without_padding_run_in_the_order_in_which_they_came() -> None:
    """A call of mixed lengths takes as many batches as one of equal lengths; a row that finds no room begins the next batch."""
    queue, encoder = RowQueue(), FakeEncoder(capabilities=Capabilities(unpadded=True))
    mixed = [16, 240] * 42 + [352] * 16
    assert (len(mixed), sum(mixed)) == (100, 16_384)
    lengths = (mixed, [500] * 32 + [700, 100], [200, 80, 90])
    jobs = [job_of(encoder, each, observer=PositionsObserver()) for each in lengths]
    for job in jobs:
        queue.push(job)
    batches = [queue.take(16_384, NOW).rows for _ in range(3)]
    long, short = jobs[1].rows[-2:]
    assert batches == [jobs[0].rows, [*jobs[1].rows[:-2], short, *jobs[2].rows[:2]], [long, jobs[2].rows[2]]]
    assert not queue.rows


async def test_only_so_many_rows_are_considered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue of a million rows is not sorted for every batch; abandoned rows don't hide those behind them."""
    monkeypatch.setattr(queue_module, "LOOKAHEAD_ROWS", 5)

    queue = RowQueue()
    gone = job_of(ENCODERS[0], [10] * 20)
    gone.cancelled = True
    queue.push(gone)
    queue.push(job_of(ENCODERS[0], [10] * 20))
    taken = queue.take(10_000, NOW)
    assert len(taken.dropped) == 20
    assert 1 <= len(taken.rows) <= 5
    assert len(queue.take(10_000, NOW).rows) == 5
