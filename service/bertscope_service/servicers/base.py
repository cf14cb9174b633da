"""What every servicer stands on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc
import numpy as np
from numpy.typing import NDArray

from bertscope_service import callers
from bertscope_service.analyses.interventions import Interventions
from bertscope_service.analyses.texts import read_input
from bertscope_service.encoders.base import Encoder, Gates
from bertscope_service.engine.engine import Engine
from bertscope_service.engine.rows import Row, deadline_after
from bertscope_service.jobs.bulk import BulkRunner
from bertscope_service.jobs.means import mean_contexts
from bertscope_service.loaded import LoadedModel
from bertscope_service.messages.limits import RequestLimits
from bertscope_service.registry import Registry
from bertscope_service.security.model_sources import SourcePolicy

T = TypeVar("T")
INLINE_BYTES = 64 * 1024
"""Requests smaller than this are checked on the loop; a large one takes seconds."""
INLINE_CHARACTERS = 4000
"""Texts shorter than this together are tokenized on the loop: a thread would take longer to wake."""


@dataclass(frozen=True, slots=True)
class Backend:
    """The parts of the server that answer questions."""

    engine: Engine
    registry: Registry
    limits: RequestLimits
    policy: SourcePolicy


@dataclass(frozen=True, slots=True)
class Caller:
    """Who waits for an answer, and until when (time.monotonic())."""

    client: str
    deadline: float | None

    @classmethod
    def of(cls, context: grpc.aio.ServicerContext[Any, Any]) -> Caller:
        return cls(callers.current.get(), deadline_after(context.time_remaining()))

    async def run(self, engine: Engine, rows: Sequence[Row], *, admitted: bool = False) -> list[Any]:
        """Results of rows, one each; see Engine.run."""
        return await engine.run(rows, client=self.client, deadline=self.deadline, admitted=admitted)

    def bulk(self, engine: Engine, encoder: Encoder) -> BulkRunner:
        """The way to run rows behind all interactive ones."""
        return BulkRunner(engine, encoder, self.client, self.deadline)

    async def gates(
        self, engine: Engine, model: LoadedModel, interventions: Interventions, reference_texts: Sequence[str]
    ) -> Gates | None:
        """What interventions do to the heads; the reference texts are run if one of them needs means."""
        return interventions.gates(await self.means(engine, model, reference_texts))

    async def means(self, engine: Engine, model: LoadedModel, reference_texts: Sequence[str]) -> NDArray[np.float32] | None:
        """Mean contexts [layers, heads, head_size] over texts; None without texts. Raises InvalidArgument for a long one."""
        if not reference_texts:
            return None
        sequences = await off_loop(
            lambda: [
                read_input(model.tokenizer, text, None, f"reference_texts[{index}]", truncate=None).sequence
                for index, text in enumerate(reference_texts)
            ],
            large=sum(map(len, reference_texts)) > INLINE_CHARACTERS,
        )
        return await mean_contexts(model.encoder, sequences, self.bulk(engine, model.encoder))


async def off_loop(work: Callable[[], T], *, large: bool) -> T:
    """Run something that only computes: in a thread if it is large, so that the loop goes on."""
    return await asyncio.to_thread(work) if large else work()
