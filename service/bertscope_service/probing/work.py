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
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.size_limits import size_limits
from bertscope_service.engine.bulk import BulkRunner
from bertscope_service.engine.rows import Row
from bertscope_service.errors import FailedPrecondition
from bertscope_service.probing.blocks import step_tokens
from bertscope_service.probing.states import SpanStates

NOT_FINITE = (
    "the model's hidden states are not finite in this precision or under these interventions; "
    "load it in fp32 or bf16, or use smaller scales"
)

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
    async with aclosing(bulk.results([len(sequence) for sequence, _ in rows], made)) as results:
        async for found in results:
            if found is None:
                raise FailedPrecondition(NOT_FINITE, "STATES_NOT_FINITE")
            add(found)
            done += 1
            report(done)


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
