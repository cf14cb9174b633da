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
from bertscope_service.errors import DeadlineExceeded
from bertscope_service.observability import timeline
from bertscope_service.observability.timeline import MAX_NOTES, Timeline

from tests.support.fakes import SumObserver
from tests.support.rig import Rig

pytestmark = pytest.mark.asyncio


@dataclass
class Traced:
    """A call that is traced, and the task that answers it."""

    notes: Timeline
    task: asyncio.Task[list[float]]


@pytest_asyncio.fixture
async def rig() -> AsyncIterator[Rig]:
    rig = Rig()
    yield rig
    await rig.engine.close()


def call(rig: Rig, *lengths: int, observer: SumObserver | None = None, deadline: float | None = None) -> Traced:
    """Rows of so many tokens, in a task that has a timeline of its own, as each call of a server does."""
    notes, context = Timeline(), copy_context()
    context.run(timeline.current.set, notes)
    return Traced(notes, context.run(rig.run, lengths, observer, deadline=deadline, admitted=True))


async def test_two_calls_in_a_batch_each_hear_of_their_rows_and_of_all(rig: Rig) -> None:
    blocker, first = await rig.block()
    one, other = call(rig, 7, 8), call(rig, 6)
    await asyncio.sleep(0)
    blocker.release.set()
    await asyncio.gather(first, one.task, other.task)
    (mine,), (theirs,) = one.notes.batches, other.notes.batches
    assert (mine.own_rows, theirs.own_rows) == (2, 1)
    assert (mine.rows, mine.tokens, mine.padding_tokens) == (theirs.rows, theirs.tokens, theirs.padding_tokens) == (3, 21, 3)
    assert all(call.notes.waits[0].ended <= call.notes.batches[0].began for call in (one, other))


async def test_a_call_that_never_ran_has_only_waited(rig: Rig) -> None:
    blocker, first = await rig.block()
    late = call(rig, 5, deadline=time.monotonic() + 0.02)
    with pytest.raises(DeadlineExceeded):
        await late.task
    (wait,) = late.notes.waits
    assert wait.ended - wait.began >= 0.015
    assert late.notes.batches == []
    blocker.release.set()
    await first


async def test_a_batch_that_nobody_traces_runs_on_the_encoder_itself(rig: Rig) -> None:
    class EncoderObserver(SumObserver):
        @classmethod
        def run(cls, encoder: Encoder, state: State, gates: BatchEdits | None, observers: Sequence[Self]) -> Readout:
            seen.append(encoder is rig.encoder)
            return super().run(encoder, state, gates, observers)

    seen: list[bool] = []
    await rig.run([7], EncoderObserver())
    await call(rig, 7, observer=EncoderObserver()).task
    assert seen == [True, False]


async def test_notes_are_bounded_and_batches_all_counted(rig: Rig) -> None:
    lengths = [70] * (MAX_NOTES + 5)  # no two fit into a batch
    running = call(rig, *lengths)
    await running.task
    assert len(running.notes.batches) == MAX_NOTES
    assert running.notes.batch_count == len(lengths)
    for _ in range(MAX_NOTES + 5):
        running.notes.waited(running.notes.waits[0])
    assert len(running.notes.waits) == MAX_NOTES
