"""Runs what all probes need behind everybody's interactive rows: the states of spans, and steps of training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.observers.span_states import SpanStatesObserver
from bertscope_service.analyses.observers.steps import StepObserver, step_row
from bertscope_service.analyses.probes import ProbePlan
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.size_limits import size_limits
from bertscope_service.engine.bulk import BulkRunner
from bertscope_service.engine.rows import Row
from bertscope_service.errors import FailedPrecondition
from bertscope_service.probing.blocks import slices, step_tokens
from bertscope_service.probing.sizes import vector_size
from bertscope_service.probing.states import SpanStates

NOT_FINITE = (
    "the model's hidden states are not finite in this precision or under these interventions; "
    "load it in fp32 or bf16, or use smaller scales"
)

ADDED_BYTES = 16_000_000
"""States that wait to be added together."""

T = TypeVar("T")

Rows = Sequence[tuple[TokenSequence, SpanStatesObserver]]


async def fill(
    add: Callable[[NDArray[np.float32]], None],
    bulk: BulkRunner,
    encoder: Encoder,
    rows: Rows,
    edits: Edits | None,
    report: Callable[[int], None],
) -> None:
    """Computes the states of all rows' spans and passes each row's to `add`, in order, float32 [spans, layers, hidden].
    `report` is told how many rows were run.

    Raises FailedPrecondition if a state is not finite.
    """

    def made(number: int) -> Row:
        sequence, observer = rows[number]
        return Row(encoder, sequence, observer, edits)

    report(0)
    done = 0
    sizes = [max(len(sequence), observer.vectors) for sequence, observer in rows]
    async with aclosing(bulk.results(sizes, made)) as results:
        found, waiting = list[NDArray[np.float32]](), 0
        async for states in results:
            if states is None:
                raise FailedPrecondition(NOT_FINITE, "STATES_NOT_FINITE")
            found.append(states)
            done, waiting = done + 1, waiting + states.nbytes
            if done == len(rows) or waiting >= ADDED_BYTES:
                await bulk.compute(partial(_each, add, found))  # to memory that is new, or a file, behind a disk
                found, waiting = [], 0
            report(done)


def _each(work: Callable[[T], None], things: Iterable[T]) -> None:
    for thing in things:
        work(thing)


class Step(NamedTuple):
    """Some work of a device's thread that takes about as long as `tokens` tokens; see blocks.step_tokens."""

    tokens: int
    work: Callable[[], None]


async def run_steps(bulk: BulkRunner, encoder: Encoder, steps: Iterable[Step]) -> None:
    """Runs steps on the device's thread, in order. Between two of them, interactive rows run, and a cancelled call ends."""

    def groups() -> Iterator[tuple[None, list[Row]]]:
        for step in steps:
            sequence, state = step_row(step.tokens)
            yield None, [Row(encoder, sequence, StepObserver(step.work), None, state, alone=True)]

    async with aclosing(bulk.map(groups())) as done:
        async for _ in done:
            pass


async def run_step(bulk: BulkRunner, encoder: Encoder, tokens: int, work: Callable[[], T]) -> T:
    """Returns the result of one step, such as numbers that a GPU copies to the host: its thread waits, not the event loop."""
    found: list[T] = []
    await run_steps(bulk, encoder, [Step(tokens, lambda: found.append(work()))])
    return found[-1]


async def standardised_states(
    bulk: BulkRunner,
    encoder: Encoder,
    plan: ProbePlan,
    edits: Edits | None,
    report: Callable[[int, int], None],
    *,
    on_disk: bool,
) -> SpanStates:
    """Returns the states of all spans of a plan, training spans first, with mean and deviation over these. `report` is told how
    many of the texts were run.

    Raises FailedPrecondition if a state is not finite, or the disk is full.
    """
    shape = (plan.spans, len(plan.query.layers), vector_size(plan, encoder))
    rows = [row for part in plan.parts for row in part.rows]
    states = await bulk.compute(partial(SpanStates, shape, encoder.device, on_disk=on_disk))

    def add(found: NDArray[np.float32]) -> None:
        # Of pairs: all first spans, then all second ones, become vectors [pairs, layers, 2 hidden].
        states.add(np.concatenate(np.split(found, 2), axis=2) if plan.query.pairs else found)

    await fill(add, bulk, encoder, rows, edits, lambda done: report(done, len(rows)))
    await bring(bulk, encoder, states)
    train = len(plan.train.labels)
    await each(bulk, encoder, states, slice(0, train), states.measure)
    await run_steps(bulk, encoder, [Step(step_tokens(0, states.values[0].numel()), partial(states.standardise, train))])
    return states


async def each(bulk: BulkRunner, encoder: Encoder, states: SpanStates, part: slice, work: Callable[[slice], None]) -> None:
    """Does some work for all spans of a part that reads, or writes, the states of some at a time."""
    spans = size_limits(encoder.device).evaluated_spans
    cost = step_tokens(0, spans * states.values[0].numel())
    await run_steps(bulk, encoder, (Step(cost, partial(work, chosen)) for chosen in slices(part, spans)))


async def bring(bulk: BulkRunner, encoder: Encoder, states: SpanStates) -> None:
    """Brings all states of spans to a device that is not the host, in steps, if it has room for them: training reads each many
    times."""
    if encoder.device.type == "cpu" or not await run_step(bulk, encoder, 1, states.make_room):
        return
    many, count = size_limits(encoder.device).evaluated_spans, len(states.values)
    parts = (slice(begin, min(begin + many, count)) for begin in range(0, count, many))
    cost = step_tokens(0, many * states.values[0].numel())
    await run_steps(bulk, encoder, (Step(cost, partial(states.bring, part)) for part in parts))
    states.end_bringing()
