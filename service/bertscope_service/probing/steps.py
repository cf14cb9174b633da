"""Runs steps of training on a device's thread, behind everybody's interactive rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from bertscope_service.analyses.observers.steps import StepObserver, step_row
from bertscope_service.encoders.base import Encoder
from bertscope_service.engine.bulk import BulkRunner
from bertscope_service.engine.rows import Row

T = TypeVar("T")


class Step(NamedTuple):
    """Some work of a device's thread that takes about as long as `tokens` tokens; see blocks.step_tokens."""

    tokens: int
    work: Callable[[], None]


@dataclass(frozen=True, slots=True, eq=False)
class StepRunner:
    """Runs the steps of a call on the thread of a model's device."""

    encoder: Encoder
    bulk: BulkRunner

    async def run(self, steps: Iterable[Step]) -> None:
        """Runs steps, in order. Between two of them, interactive rows run, and a cancelled call ends."""

        def groups() -> Iterator[tuple[None, list[Row]]]:
            for step in steps:
                sequence, state = step_row(step.tokens)
                yield None, [Row(self.encoder, sequence, StepObserver(step.work), None, state, alone=True)]

        async with aclosing(self.bulk.map(groups())) as done:
            async for _ in done:
                pass

    async def result(self, tokens: int, work: Callable[[], T]) -> T:
        """Returns the result of one step, such as numbers that a GPU copies to the host: its thread waits, not the event
        loop."""
        found: list[T] = []
        await self.run([Step(tokens, lambda: found.append(work()))])
        return found[-1]
