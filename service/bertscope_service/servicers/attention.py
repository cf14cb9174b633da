"""AttentionService."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import Any

import grpc
from bertscope.v1 import attention_pb2, attention_pb2_grpc

from bertscope_service.analyses.attention import AttentionObserver, AttentionPlan, AttentionQuery, AttentionStep, Maps
from bertscope_service.encoders.base import Gates, State
from bertscope_service.engine.rows import Row
from bertscope_service.loaded import LoadedModel
from bertscope_service.messages.attention import parse_extract_attention, render_chunks, render_header
from bertscope_service.messages.common import check_tokens, parse_interventions, parse_reference_texts
from bertscope_service.servicers.base import INLINE_CHARACTERS, Backend, Caller, off_loop
from bertscope_service.servicers.requirements import require_observable

WINDOW_BYTES = 48 * 1024 * 1024
"""Texts are computed ahead of the reader while their tensors together stay below this,"""

ALL_WINDOWS_BYTES = 1024 * 1024 * 1024
"""and those of all readers together below this. The text that is read now is always computed."""

Response = attention_pb2.ExtractAttentionResponse


class AttentionServicer(attention_pb2_grpc.AttentionServiceServicer):
    """Streams attention maps."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._ahead_bytes = 0

    async def ExtractAttention(
        self,
        request: attention_pb2.ExtractAttentionRequest,
        context: grpc.aio.ServicerContext[Any, Any],
    ) -> AsyncIterator[Response]:
        with self._backend.registry.use(request.model) as model:
            require_observable(model)
            query = parse_extract_attention(request, model.encoder.shape, self._backend.limits, model.name)
            interventions = parse_interventions(request.interventions, model.encoder.shape, model.name)
            reference_texts = parse_reference_texts(request.reference_texts, interventions, self._backend.limits)
            plans = await self._plan(query, model)
            check_tokens((plan.sequence for plan in plans), "inputs", self._backend.limits)
            caller = Caller.of(context)
            gates = await caller.gates(self._backend.engine, model, interventions, reference_texts)
            # Closed here and now: what runs ahead must not wait for a garbage collector once the reader is gone.
            async with aclosing(self._stream(plans, model, gates, caller)) as responses:
                async for response in responses:
                    yield response

    async def _plan(self, query: AttentionQuery, model: LoadedModel) -> list[AttentionPlan]:
        """All texts are tokenized before the first is run: a text that is too long is an error at once."""
        characters = sum(len(text) + len(pair or "") for text, pair in query.inputs)
        return await off_loop(
            lambda: [AttentionPlan(query, index, model.tokenizer) for index in range(len(query.inputs))],
            large=characters > INLINE_CHARACTERS,
        )

    async def _stream(
        self, plans: list[AttentionPlan], model: LoadedModel, gates: Gates | None, caller: Caller
    ) -> AsyncGenerator[Response, None]:
        """Headers and chunks, text by text; texts run ahead of their reader within its window."""
        runs: deque[_TextRun] = deque()
        started = ahead_bytes = 0
        try:
            for index, plan in enumerate(plans):
                while started < len(plans) and (started == index or self._has_room(ahead_bytes, plans[started].bytes)):
                    run = partial(caller.run, self._backend.engine)
                    runs.append(_TextRun(plans[started], model, gates, run, admitted=started > 0))
                    ahead_bytes += plans[started].bytes
                    self._ahead_bytes += plans[started].bytes
                    started += 1
                async for observer, block in runs[0].steps():
                    if observer is plan.steps[0]:
                        # Not before there is something to send: an error is a status then, not a broken stream.
                        yield render_header(index, plan, model)
                    for layer, maps in zip(observer.layers, block, strict=True):
                        for response in render_chunks(index, plan.offset(layer), maps):
                            yield response
                    del block, maps  # they must not lie beside the next step's
                ahead_bytes -= plan.bytes
                self._ahead_bytes -= plan.bytes
                runs.popleft()
        finally:
            self._ahead_bytes -= ahead_bytes
            for run_ahead in runs:
                run_ahead.cancel()

    def _has_room(self, ahead_bytes: int, more_bytes: int) -> bool:
        """Whether a stream that is so far ahead may run another text."""
        return ahead_bytes + more_bytes <= WINDOW_BYTES and self._ahead_bytes + more_bytes <= ALL_WINDOWS_BYTES


class _TextRun:
    """A text whose first step is started at once, and every other one when its reader has taken the one before."""

    def __init__(
        self,
        plan: AttentionPlan,
        model: LoadedModel,
        gates: Gates | None,
        run: Callable[..., Awaitable[list[AttentionStep]]],
        *,
        admitted: bool,
    ) -> None:
        """`admitted`: its first step can't be turned away by a full queue."""
        self.plan = plan
        self._model = model
        self._gates = gates
        self._run = run
        self._first = asyncio.create_task(self._step(0, None, admitted=admitted))
        # A step that fails after its reader is gone has nobody to tell.
        self._first.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def steps(self) -> AsyncIterator[tuple[AttentionObserver, Maps]]:
        """Each step's maps, and what they are of."""
        step = await self._first
        del self._first
        state = step.state
        yield self.plan.steps[0], step.maps
        for number, observer in enumerate(self.plan.steps[1:], start=1):
            del step
            # What was begun is finished: only the first step can be turned away.
            step = await self._step(number, state, admitted=True)
            state = step.state
            yield observer, step.maps

    def cancel(self) -> None:
        """Drop what nobody reads any more."""
        if hasattr(self, "_first"):
            self._first.cancel()

    async def _step(self, number: int, state: State | None, *, admitted: bool) -> AttentionStep:
        row = Row(self._model.encoder, self.plan.sequence, self.plan.steps[number], self._gates, state)
        (step,) = await self._run([row], admitted=admitted)
        return step
