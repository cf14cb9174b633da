"""Clients share a device's time, nobody starves, and an overload changes neither. A simulated clock; no threads."""

from collections import Counter
from itertools import combinations, cycle, groupby

import pytest
from bertscope_service.engine.queue import PATIENCE_SECONDS, RowQueue
from bertscope_service.engine.rate_estimate import BATCH_SECONDS as MOST_SECONDS
from bertscope_service.engine.rows import Priority
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.fakes import FakeEncoder, job_of
from tests.support.simulation import BATCH_SECONDS, BUDGET, TOKEN_SECONDS, Arrival, Simulation

pytestmark = pytest.mark.asyncio
EXAMPLES = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
LENGTHS = st.lists(st.integers(1, BUDGET), min_size=1, max_size=8)
KIND = st.sampled_from(sorted(TOKEN_SECONDS))
JOBS = st.builds(Arrival, at=st.floats(0, 20), client=st.sampled_from("abcdef"), lengths=LENGTHS, kind=KIND)


@EXAMPLES
@given(
    backlogs=st.dictionaries(st.sampled_from("xyz"), st.tuples(LENGTHS, KIND), min_size=2), others=st.lists(JOBS, max_size=20)
)
async def test_clients_that_always_wait_are_served_for_equally_long(
    backlogs: dict[str, tuple[list[int], str]], others: list[Arrival]
) -> None:
    """Whatever they run, however long their texts are, and whoever else comes: to within two batches at any time."""
    simulation = Simulation(limit_tokens=10**9)
    always = [Arrival(0.0, client, lengths * 100, kind) for client, (lengths, kind) in backlogs.items()]
    coming = sorted([*always, *others], key=lambda arrival: -arrival.at)
    left = Counter({arrival.client: sum(arrival.lengths) * TOKEN_SECONDS[arrival.kind] for arrival in always})
    for _ in range(250):
        while coming and coming[-1].at <= simulation.now:
            simulation.offer(coming.pop())
        simulation.step()
        if any(left[client] - simulation.served[client] < 1e-9 for client in backlogs):
            break  # one of them waits no more
        for one, other in combinations(backlogs, 2):
            assert abs(simulation.served[one] - simulation.served[other]) <= 2 * BATCH_SECONDS + 1e-9


async def test_a_client_whose_rows_fill_no_batch_gets_as_much_as_one_who_floods() -> None:
    """It has one row for each of two models at a time. The other's rows ride along in its batches, but not without end."""
    simulation = Simulation(limit_tokens=10**9)
    for _ in range(300):
        simulation.offer(Arrival(0.0, "flood", [10] * 10, "fast"))
        simulation.offer(Arrival(0.0, "flood", [10] * 10, "slow"))
    kinds = cycle(["fast", "slow"])
    for _ in range(300):
        while simulation.queue.backlog.tokens_of("modest", Priority.INTERACTIVE) < 20:
            simulation.offer(Arrival(0.0, "modest", [10], next(kinds)))
        simulation.step()
        assert abs(simulation.served["flood"] - simulation.served["modest"]) <= 2 * BATCH_SECONDS


async def test_endless_new_clients_do_not_starve_one_that_waits() -> None:
    """Each call from a connection of its own, faster than they can be run: the clock moves on past who waits."""
    simulation = Simulation(limit_tokens=2000)
    job = simulation.offer(Arrival(0.0, "patient", [10] * 50))
    for number in range(500):
        for part in range(3):
            simulation.offer(Arrival(0.0, f"new {number} {part}", [100]))
        simulation.step()
    assert len(simulation.refused) > 500
    assert job in simulation.waits


async def test_calls_that_follow_each_other_let_another_client_s_batch_in() -> None:
    """Clients that have a row waiting whenever a batch ends: who waits with them has its share of the time, not less."""
    simulation = Simulation(limit_tokens=10**9)
    simulation.offer(Arrival(0.0, "heavy", [BUDGET] * 1000, "slow"))
    for number in range(2000):
        # Two lights in turn: one comes back while the other's batch runs.
        simulation.offer(Arrival(simulation.now, f"light {number % 2}", [10], "slow"))
        simulation.step()
    share = simulation.served["heavy"] / simulation.now
    assert 0.3 < share < 0.6


async def test_bulk_rows_keep_a_share_while_interactive_ones_never_end() -> None:
    """And it is small: a sixteenth, give or take a batch."""
    simulation = Simulation(limit_tokens=10**9)
    simulation.offer(Arrival(0.0, "sweep", [10] * 1000, priority=Priority.BULK))
    for _ in range(600):
        simulation.offer(Arrival(0.0, "caller", [10] * 10))
        simulation.step()
    gaps = "".join("b" if priority is Priority.BULK else "i" for priority in simulation.order).split("b")
    batch = BUDGET * TOKEN_SECONDS["fast"]
    assert len(gaps) > 50
    assert all(0 <= len(gap) * batch - PATIENCE_SECONDS <= batch for gap in gaps[1:-1])
    assert simulation.served["sweep"] < simulation.served["caller"] / 12


async def test_short_steps_of_bulk_work_share_a_turn() -> None:
    """A training's steps run alone: as many run at a turn as take the time of a batch."""
    turn, step = MOST_SECONDS[Priority.BULK], 50
    queue = RowQueue(charge=lambda row: 0.99 * turn / 8 / step if row.alone else turn / 10)
    queue.push(job_of(FakeEncoder(), [step] * 100, priority=Priority.BULK, alone=True))
    order = list[Priority]()
    for _ in range(200):
        queue.push(job_of(FakeEncoder(), [10], client="caller"))
        (first,) = queue.take(10, 0.0).rows
        order.append(first.job.priority)
    runs = [(priority, len(list(many))) for priority, many in groupby(order)]
    assert len(runs) > 12
    assert set(runs[:-1]) == {(Priority.INTERACTIVE, round(PATIENCE_SECONDS / turn)), (Priority.BULK, 8)}


@pytest.mark.parametrize("cost", [10.0, 0.1])
async def test_clients_share_the_time_that_batches_really_take(cost: float) -> None:
    """Whatever it was estimated to be: rows of one client take `cost` times as long."""
    encoder, queue, served = FakeEncoder(), RowQueue(lambda _: 1e-3), Counter[str]()
    for client in ("usual", "other"):
        queue.push(job_of(encoder, [10] * 4000, client=client))
    for _ in range(400):
        rows = queue.take(10, now=0.0).rows
        seconds = 10 * 1e-3 * (cost if rows[0].job.client == "other" else 1.0)
        queue.settle(rows, seconds)
        served[rows[0].job.client] += seconds
    batch = 10 * 1e-3 * max(cost, 1.0)
    assert abs(served["usual"] - served["other"]) <= 2 * batch
