"""What every servicer stands on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc

from bertscope_service.engine.engine import Engine
from bertscope_service.engine.rows import Row, deadline_after
from bertscope_service.messages.limits import RequestLimits
from bertscope_service.registry import Registry

T = TypeVar("T")
INLINE_CHARACTERS = 4000
"""Texts shorter than this together are tokenized on the loop: a thread would take longer to wake."""


@dataclass(frozen=True, slots=True)
class Backend:
    """The parts of the server that answer questions."""

    engine: Engine
    registry: Registry
    limits: RequestLimits


@dataclass(frozen=True, slots=True)
class Caller:
    """Who waits for an answer, and until when (time.monotonic())."""

    client: str
    deadline: float | None

    @classmethod
    def of(cls, context: grpc.aio.ServicerContext[Any, Any]) -> Caller:
        return cls(context.peer(), deadline_after(context.time_remaining()))

    async def run(self, engine: Engine, rows: Sequence[Row], *, admitted: bool = False) -> list[Any]:
        """Results of rows, one each; see Engine.run."""
        return await engine.run(rows, client=self.client, deadline=self.deadline, admitted=admitted)


async def off_loop(work: Callable[[], T], *, large: bool) -> T:
    """Run something that only computes: in a thread if it is large, so that the loop goes on."""
    return await asyncio.to_thread(work) if large else work()
