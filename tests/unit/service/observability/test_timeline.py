"""Where the time of a call went, as the engine notes it. No model, no spans."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from typing import Self

import pytest
import pytest_asyncio
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import BatchEdits
from bertscope_service.encoders.observer import Readout
from bertscope_service.encoders.state import State
from bertscope_service.engine.engine import Engine
from bertscope_service.engine.limits import Limits
from bertscope_service.engine.rows import Row
from bertscope_service.errors import DeadlineExceeded
from bertscope_service.observability import timeline
from bertscope_service.observability.metrics import Metrics
from bertscope_service.observability.timeline import MAX_NOTES, Timeline

from tests.support.fakes import SECONDS, Blocker, FakeEncoder, SumObserver, sequence

pytestmark = pytest.mark.asyncio
ENCODER = FakeEncoder()


@dataclass
class Traced:
    """A call that is traced, and the task that answers it."""

    notes: Timeline
    task: asyncio.Task[list[float]]


class LayersObserver(SumObserver):
    """Adds up behind all layers."""

    @classmethod
    def run(cls, encoder: Encoder, state: State, gates: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        encoder.advance(state, encoder.shape.layers)
        return super().run(encoder, state, gates, observers)


@pytest_asyncio.fixture
async def engine() -> AsyncIterator[Engine]:
    engine = Engine(lambda _: Limits(batch_tokens=100, queue_tokens=200), Metrics())
    yield engine
    await engine.close()


def call(engine: Engine, *lengths: int, observer: SumObserver | None = None, deadline: float | None = None) -> Traced:
    """Rows of so many tokens, in a task that has a timeline of its own, as each call of a server does."""
    notes, context = Timeline(), copy_context()
    context.run(timeline.current.set, notes)
    rows = [Row(ENCODER, sequence(length), observer or SumObserver()) for length in lengths]
    work = engine.run(rows, client="client", deadline=deadline, admitted=True)
    return Traced(notes, asyncio.get_running_loop().create_task(work, context=context))


async def blocked(engine: Engine) -> tuple[Blocker, Traced]:
    """A batch that ends when it is released."""
    blocker = Blocker()
    running = call(engine, 1, observer=SumObserver(blocker, group="blocker"))
    await asyncio.sleep(0)  # the task submits
    assert await asyncio.to_thread(blocker.entered.wait, SECONDS)
    return blocker, running


async def test_a_call_has_one_wait_and_its_batches_in_the_order_of_their_moments(engine: Engine) -> None:
    returned: list[float] = []

    def reduce(state: State) -> None:
        assert state.layer == ENCODER.shape.layers
        returned.append(time.perf_counter())

    before = time.perf_counter()
    running = call(engine, 30, 3, observer=LayersObserver(reduce))
    await running.task
    after = time.perf_counter()
    (wait,) = running.notes.waits
    batches = sorted(running.notes.batches, key=lambda batch: batch.began)
    assert before <= wait.began <= wait.ended <= batches[0].began
    for batch, reduced in zip(batches, returned, strict=True):
        assert batch.began < batch.advanced <= reduced <= batch.ended <= after
        assert (batch.device, batch.own_rows, batch.rows) == ("cpu", 1, 1)
    assert sorted(batch.tokens for batch in batches) == [3, 30]
    assert running.notes.batch_count == 2


async def test_two_calls_in_a_batch_each_hear_of_their_rows_and_of_all(engine: Engine) -> None:
    blocker, first = await blocked(engine)
    one, other = call(engine, 7, 8), call(engine, 6)
    await asyncio.sleep(0)
    blocker.release.set()
    await asyncio.gather(first.task, one.task, other.task)
    (mine,), (theirs,) = one.notes.batches, other.notes.batches
    assert (mine.own_rows, theirs.own_rows) == (2, 1)
    assert (mine.rows, mine.tokens, mine.padding_tokens) == (theirs.rows, theirs.tokens, theirs.padding_tokens) == (3, 21, 3)
    # Both waited for the batch that was blocked.
    assert all(call.notes.waits[0].ended >= first.notes.batches[0].began for call in (one, other))


async def test_a_call_that_never_ran_has_only_waited(engine: Engine) -> None:
    blocker, first = await blocked(engine)
    late = call(engine, 5, deadline=time.monotonic() + 0.02)
    with pytest.raises(DeadlineExceeded):
        await late.task
    (wait,) = late.notes.waits
    assert wait.ended - wait.began >= 0.015
    assert late.notes.batches == []
    blocker.release.set()
    await first.task


async def test_a_batch_that_nobody_traces_runs_on_the_encoder_itself(engine: Engine) -> None:
    class EncoderObserver(SumObserver):
        @classmethod
        def run(cls, encoder: Encoder, state: State, gates: BatchEdits | None, observers: Sequence[Self]) -> Readout:
            seen.append(encoder is ENCODER)
            return super().run(encoder, state, gates, observers)

    seen: list[bool] = []
    await engine.run([Row(ENCODER, sequence(7), EncoderObserver())], client="client")
    await call(engine, 7, observer=EncoderObserver()).task
    assert seen == [True, False]


async def test_notes_are_bounded_and_batches_all_counted(engine: Engine) -> None:
    lengths = [70] * (MAX_NOTES + 5)  # no two fit into a batch
    running = call(engine, *lengths)
    await running.task
    assert len(running.notes.batches) == MAX_NOTES
    assert running.notes.batch_count == len(lengths)
    for _ in range(MAX_NOTES + 5):
        running.notes.waited(running.notes.waits[0])
    assert len(running.notes.waits) == MAX_NOTES
