"""Who may wait, who may not, and what they are told. No clock, no threads."""

import pytest
from bertscope_service.engine.admission import (
    EARLY,
    ESTIMATE_ERROR,
    MARGIN,
    MAX_RETRY_SECONDS,
    MIN_RETRY_SECONDS,
    MULTIPLE_OF_FREE,
)
from bertscope_service.engine.backlog import Backlog, Load
from bertscope_service.engine.rows import Job, Priority
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.fakes import FakeEncoder, job_of
from tests.support.simulation import BUDGET, KINDS, TOKEN_SECONDS, Arrival, Simulation

pytestmark = pytest.mark.asyncio
EXAMPLES = settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
LIMIT = 1000
SHARE = LIMIT * MULTIPLE_OF_FREE // (MULTIPLE_OF_FREE + 1)
"""The most tokens that one client takes from others."""
SIZES = st.lists(st.integers(1, 300), min_size=1, max_size=4)


def reason(simulation: Simulation, arrival: Arrival) -> str | None:
    """Why a job would be refused now."""
    refusal = simulation.admission.refuse(simulation.queue.backlog, simulation.job(arrival), simulation.now)
    return None if refusal is None else refusal.reason


@EXAMPLES
@given(offers=st.lists(st.tuples(st.sampled_from("abcd"), SIZES, st.integers(0, 3)), max_size=40))
async def test_tokens_never_exceed_the_limit(offers: list[tuple[str, list[int], int]]) -> None:
    """But for a job that finds the queue empty; and a refusal for want of room is never wrong."""
    simulation = Simulation(LIMIT)
    for client, lengths, steps in offers:
        was = simulation.queue.tokens
        own = simulation.queue.backlog.tokens_of(client, Priority.INTERACTIVE)
        job = simulation.offer(Arrival(0.0, client, lengths))
        free = LIMIT - was
        if job.tokens > free:
            free += simulation.queue.backlog.excess(client, Priority.INTERACTIVE, SHARE)
        fits = job.tokens <= free
        fair = not own or own + job.tokens <= MULTIPLE_OF_FREE * free
        let_in = all(refused is not job for refused, _ in simulation.refused)
        assert let_in == (not was or (fits and fair))
        for _ in range(steps):
            simulation.step()


async def test_a_job_larger_than_the_queue_shuts_out_nobody_else() -> None:
    """It found the queue empty. Others have the part of the queue that they always have."""
    simulation = Simulation(LIMIT)
    simulation.offer(Arrival(0.0, "large", [LIMIT] * 5))
    assert simulation.queue.tokens == 5 * LIMIT
    assert reason(simulation, Arrival(0.0, "large", [1])) == "QUEUE_FULL"
    assert reason(simulation, Arrival(0.0, "small", [LIMIT - SHARE + 1])) == "QUEUE_FULL"
    for _ in range(LIMIT - SHARE):
        assert reason(simulation, Arrival(0.0, "small", [1])) in (None, "QUEUE_FULL")
        simulation.offer(Arrival(0.0, "small", [1]))
    taken = simulation.queue.tokens - 5 * LIMIT
    assert 0.5 * (LIMIT - SHARE) < taken <= LIMIT - SHARE


async def test_a_client_alone_may_fill_four_fifths() -> None:
    simulation = Simulation(LIMIT)
    for _ in range(200):
        simulation.offer(Arrival(0.0, "alone", [10]))
    assert simulation.queue.tokens == LIMIT * MULTIPLE_OF_FREE // (MULTIPLE_OF_FREE + 1)
    (*_, (_, refusal)) = simulation.refused
    assert refusal.message == "800 of the 800 tokens that wait on cpu are yours and the queue takes 1000; try again later"


@EXAMPLES
@given(
    offers=st.lists(st.tuples(st.sampled_from("abc"), SIZES, st.sampled_from(sorted(TOKEN_SECONDS))), max_size=30),
    client=st.sampled_from("abcd"),
    lengths=SIZES,
    patience=st.none() | st.floats(0.01, 5.0),
)
async def test_a_call_refused_before_reading_would_have_been_refused_anyway(
    offers: list[tuple[str, list[int], str]], client: str, lengths: list[int], patience: float | None
) -> None:
    """Unless it has something waiting already, and asks for very little more."""
    simulation = Simulation(LIMIT, limit_seconds=3.0)
    for other, sizes, kind in offers:
        simulation.offer(Arrival(0.0, other, sizes, kind))
    backlog = simulation.queue.backlog
    own = backlog.tokens_of(client, Priority.INTERACTIVE)
    early = simulation.admission.refuse_before_reading(backlog, client, patience)
    little = [round(EARLY * max(LIMIT, 3.0 / TOKEN_SECONDS["fast"]))] if own else []
    heard = reason(simulation, Arrival(0.0, client, [*lengths, *little], patience=patience))
    assert early is None or heard is not None


@EXAMPLES
@given(
    offers=st.lists(st.tuples(st.sampled_from("abc"), SIZES), min_size=5, max_size=30),
    client=st.sampled_from("abcd"),
    lengths=SIZES,
    limit_seconds=st.sampled_from([0.2, 0.5, 1e9]),
)
async def test_who_comes_back_when_told_is_let_in(
    offers: list[tuple[str, list[int]]], client: str, lengths: list[int], limit_seconds: float
) -> None:
    """If nobody else came meanwhile; in the time of two more batches at most. Who was told of a want of room may then hear of
    the time."""
    simulation = Simulation(LIMIT, limit_seconds)
    for other, sizes in offers:
        simulation.offer(Arrival(0.0, other, sizes))
    mine = Arrival(0.0, client, lengths)
    refusal = simulation.admission.refuse(simulation.queue.backlog, simulation.job(mine), simulation.now)
    if refusal is None:
        return
    assert MIN_RETRY_SECONDS <= refusal.retry_after <= MAX_RETRY_SECONDS
    back = simulation.now + refusal.retry_after + 2 * BUDGET * TOKEN_SECONDS["fast"]
    while simulation.now < back and simulation.step():
        pass
    again = simulation.admission.refuse(simulation.queue.backlog, simulation.job(mine), simulation.now)
    assert again is None or ("go before" in again.message and "go before" not in refusal.message)


async def test_a_deadline_out_of_reach_is_refused_at_once() -> None:
    """Its own time, of each other client's as much, and the batches ahead: 0.1 + 0.1 + 0.3 s here, with a margin."""
    simulation = Simulation()
    simulation.now = 1000.0
    simulation.offer(Arrival(0.0, "other", [100] * 10))
    enough = 0.5 * MARGIN
    assert reason(simulation, Arrival(0.0, "mine", [100], patience=enough + 0.001)) is None
    late = simulation.job(Arrival(0.0, "mine", [100], patience=enough - 0.001))
    refusal = simulation.admission.refuse(simulation.queue.backlog, late, simulation.now)
    assert refusal is not None
    assert refusal.reason == "DEADLINE_UNREACHABLE"
    assert refusal.message == (
        "an answer takes 0.5 s on cpu now, and the deadline leaves 0.75 s; give it more time, or try again later"
    )
    assert reason(simulation, Arrival(0.0, "other", [100], patience=1.4 * MARGIN - 0.001)) == "DEADLINE_UNREACHABLE"


async def test_a_wait_longer_than_the_limit_is_refused() -> None:
    """Its client's own work goes before it, and of another client's as much as it takes itself."""
    simulation = Simulation(limit_seconds=0.2)
    simulation.offer(Arrival(0.0, "other", [100] * 5))
    assert reason(simulation, Arrival(0.0, "mine", [199])) is None
    assert reason(simulation, Arrival(0.0, "mine", [201])) == reason(simulation, Arrival(0.0, "other", [1])) == "QUEUE_FULL"
    late = simulation.job(Arrival(0.0, "mine", [250]))
    refusal = simulation.admission.refuse(simulation.queue.backlog, late, simulation.now)
    assert refusal is not None
    assert refusal.message == "0.25 s of work go before this request on cpu, and 0.2 s may; try again later"
    assert refusal.retry_after == pytest.approx(0.5 - 0.2)


async def test_where_nobody_waits_estimates_are_doubted() -> None:
    """A job that may just be through in time is let in."""
    simulation = Simulation()
    assert reason(simulation, Arrival(0.0, "mine", [100], patience=0.1 / ESTIMATE_ERROR + 0.001)) is None
    assert reason(simulation, Arrival(0.0, "mine", [100], patience=0.1 / ESTIMATE_ERROR - 0.001)) == "DEADLINE_UNREACHABLE"


async def test_nobody_is_refused_on_a_guess() -> None:
    """While it is not known how fast the device is, only room counts."""
    simulation = Simulation(limit_seconds=0.001)
    for client in "ab":
        job = simulation.job(Arrival(0.0, client, [100] * 10, patience=0.001))
        job.token_seconds = 0.0
        assert simulation.admission.refuse(simulation.queue.backlog, job, simulation.now) is None
        simulation.queue.push(job)


async def test_bulk_work_keeps_no_interactive_call_out() -> None:
    """However much of it waits, also of the same client; and it waits itself in what interactive calls leave."""
    simulation = Simulation(LIMIT, limit_seconds=1.0)
    for client in "abc":
        bulk = simulation.job(Arrival(0.0, client, [100] * 20, priority=Priority.BULK))
        simulation.queue.push(bulk)  # what was begun is not turned away
    backlog = simulation.queue.backlog
    for client in "ad":
        assert simulation.admission.refuse_before_reading(backlog, client, 0.5) is None
        assert reason(simulation, Arrival(0.0, client, [100], patience=0.5)) is None
    assert reason(simulation, Arrival(0.0, "d", [100], priority=Priority.BULK)) == "QUEUE_FULL"


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("push"), st.sampled_from("abc"), SIZES, st.sampled_from(list(Priority)), st.floats(1e-6, 0.1)),
        st.tuples(st.just("take"), st.integers(1, 500)),
        st.tuples(st.just("remove"), st.integers(0, 30)),
    ),
    max_size=40,
)


@EXAMPLES
@given(steps=STEPS)
async def test_the_backlog_never_drifts_from_what_waits(steps: list[tuple[object, ...]]) -> None:
    simulation, jobs, encoder = Simulation(), list[Job](), FakeEncoder()
    queue = simulation.queue
    for step in steps:
        match step:
            case ("push", str(client), list(lengths), Priority() as priority, float(seconds)):
                job = job_of(encoder, lengths, client=client, priority=priority, observer=KINDS["fast"])
                job.token_seconds = seconds
                jobs.append(job)
                queue.push(job)
            case ("take", int(budget)):
                queue.take(budget, 0.0)
            case ("remove", int(which)) if jobs:
                queue.remove(jobs[which % len(jobs)])
        check(queue.backlog, jobs)
    queue.clear()
    assert queue.backlog.total == Load()


def check(backlog: Backlog, jobs: list[Job]) -> None:
    """Compare with sums over the rows themselves."""
    waiting = [row for job in jobs for row in job.rows if not row.taken]
    interactive = [row for row in waiting if row.job.priority is Priority.INTERACTIVE]
    assert backlog.up_to(Priority.INTERACTIVE).tokens == sum(len(row.sequence) for row in interactive)
    assert backlog.total.rows == len(waiting)
    assert backlog.total.tokens == sum(len(row.sequence) for row in waiting)
    assert backlog.total.seconds == pytest.approx(sum(len(row.sequence) * row.job.token_seconds for row in waiting), abs=1e-9)
    for client in "abcd":
        mine = [row for row in waiting if row.job.client == client]
        assert backlog.tokens_of(client, Priority.BULK) == sum(len(row.sequence) for row in mine)
        urgent = sum(len(row.sequence) * row.job.token_seconds for row in mine if row.job.priority is Priority.INTERACTIVE)
        others = {row.job.client for row in waiting} - {client}
        share = {
            other: sum(
                len(row.sequence) * row.job.token_seconds
                for row in waiting
                if row.job.client == other and row.job.priority is Priority.INTERACTIVE
            )
            for other in others
        }
        expected = urgent + sum(min(seconds, urgent + 1.0) for seconds in share.values())
        assert backlog.seconds_before(client, Priority.INTERACTIVE, 1.0) == pytest.approx(expected, abs=1e-9)
