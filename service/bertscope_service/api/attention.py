"""The AttentionService."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING

from bertscope.v1 import attention_pb2, attention_pb2_grpc, attention_relations_pb2, attention_statistics_pb2, common_pb2

from bertscope_service.analyses.attention import (
    AttentionObserver,
    AttentionPlan,
    AttentionQuery,
    AttentionStep,
    Maps,
    TextPlan,
)
from bertscope_service.analyses.word_maps import Word
from bertscope_service.api.answer import Backend, Call, Context, answer
from bertscope_service.api.attention_chunks import render_chunks
from bertscope_service.api.attention_comparison import compare_attention
from bertscope_service.api.attention_description import plan_description, render_description
from bertscope_service.api.attention_features import plan_features, render_features
from bertscope_service.api.attention_quantities import QUANTITY_NUMBERS, check_pairs, read_quantity, require_quantity
from bertscope_service.api.attention_relations import plan_relations, render_relations
from bertscope_service.api.checks import check_inputs, check_numbers
from bertscope_service.api.enums import meaning
from bertscope_service.api.limits import RequestLimits
from bertscope_service.api.provenance import render_provenance
from bertscope_service.api.requirements import require_observable
from bertscope_service.api.tokens import render_piece, render_word
from bertscope_service.encoders.base import Gates, Shape
from bertscope_service.encoders.state import State
from bertscope_service.engine.rows import Row
from bertscope_service.errors import InvalidArgument
from bertscope_service.models.loaded import LoadedModel

if TYPE_CHECKING:
    import torch

WINDOW_BYTES = 48 * 1024 * 1024
"""Maximum size of the tensors that are computed ahead of one reader, bytes. The text that is read now is always computed."""

ALL_WINDOWS_BYTES = 1024 * 1024 * 1024
"""Maximum size of the tensors that are computed ahead of all readers together, bytes."""

ITEM_SIZES = {common_pb2.DATA_TYPE_UNSPECIFIED: 4, common_pb2.DATA_TYPE_FLOAT32: 4, common_pb2.DATA_TYPE_FLOAT16: 2}
BY_WORD = {number: number == attention_pb2.ATTENTION_LEVEL_WORD for number in attention_pb2.AttentionLevel.values()}
DATA_TYPES = {4: common_pb2.DATA_TYPE_FLOAT32, 2: common_pb2.DATA_TYPE_FLOAT16}

Response = attention_pb2.ExtractAttentionResponse | bytes
"""A message, or one that is serialised already."""


class AttentionServicer(attention_pb2_grpc.AttentionServiceServicer):
    """Serves AttentionService: streams attention maps, describes them, and scores them."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._ahead_bytes = 0

    async def ExtractAttention(  # type: ignore[override]  # the interceptor sends bytes as they are
        self, request: attention_pb2.ExtractAttentionRequest, context: Context
    ) -> AsyncIterator[Response]:
        with self._backend.registry.use(request.model) as model:
            call = Call.of(self._backend, model, context)
            # All texts are tokenized before the first one runs, so that a text that is too long is an error at once.
            plan, gates = await call.prepare(request, plan_extract_attention)
            # Closed explicitly: texts that run ahead must not wait for garbage collection after the client is gone.
            async with aclosing(self._stream(plan.texts, call, gates)) as responses:
                async for response in responses:
                    yield response

    async def DescribeAttention(
        self, request: attention_statistics_pb2.DescribeAttentionRequest, context: Context
    ) -> attention_statistics_pb2.DescribeAttentionResponse:
        return await answer(
            self._backend, request, context, plan_description, render_description, model=request.model, inline_bytes=0
        )

    async def ScoreRelations(
        self, request: attention_relations_pb2.ScoreRelationsRequest, context: Context
    ) -> attention_relations_pb2.ScoreRelationsResponse:
        return await answer(
            self._backend, request, context, plan_relations, render_relations, model=request.model, inline_bytes=0
        )

    async def ScoreFeatures(
        self, request: attention_relations_pb2.ScoreFeaturesRequest, context: Context
    ) -> attention_relations_pb2.ScoreFeaturesResponse:
        return await answer(
            self._backend, request, context, plan_features, render_features, model=request.model, inline_bytes=0
        )

    async def CompareAttention(
        self, request: attention_statistics_pb2.CompareAttentionRequest, context: Context
    ) -> attention_statistics_pb2.CompareAttentionResponse:
        return await compare_attention(self._backend, request, context)

    async def _stream(self, plans: list[TextPlan], call: Call, gates: Gates | None) -> AsyncGenerator[Response, None]:
        """Yields headers and chunks, text by text; texts run ahead of their reader within its window."""
        runs: deque[_TextRun] = deque()
        started = ahead_bytes = 0
        try:
            for index, plan in enumerate(plans):
                while started < len(plans) and (started == index or self._fits_ahead(ahead_bytes, plans[started].bytes)):
                    runs.append(_TextRun(plans[started], call, gates, admitted=started > 0))
                    ahead_bytes += plans[started].bytes
                    self._ahead_bytes += plans[started].bytes
                    started += 1
                async for observer, block in runs[0].steps():
                    if observer is plan.steps[0]:
                        # Sent with the first maps, so that an error before them is a status, not a broken stream.
                        yield render_header(index, plan, call.model)
                    for place, layer in enumerate(observer.layers):
                        for response in render_chunks(index, plan.offset(layer), block[place]):
                            yield response
                    del block  # it must not stay in memory beside the next step's
                ahead_bytes -= plan.bytes
                self._ahead_bytes -= plan.bytes
                runs.popleft()
        finally:
            self._ahead_bytes -= ahead_bytes
            for run_ahead in runs:
                run_ahead.cancel()

    def _fits_ahead(self, ahead_bytes: int, more_bytes: int) -> bool:
        """Checks that a stream which is `ahead_bytes` ahead may run another text."""
        return ahead_bytes + more_bytes <= WINDOW_BYTES and self._ahead_bytes + more_bytes <= ALL_WINDOWS_BYTES


class _TextRun:
    """A text whose first step starts at once; each other step starts when the reader has taken the one before."""

    def __init__(self, plan: TextPlan, call: Call, gates: Gates | None, *, admitted: bool) -> None:
        """Starts the first step. `admitted`: a full queue can't reject it."""
        self.plan = plan
        self._call = call
        self._gates = gates
        self._first = asyncio.create_task(self._step(0, None, None, admitted=admitted))
        # Retrieves the error of a step that fails after its client is gone.
        self._first.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def steps(self) -> AsyncIterator[tuple[AttentionObserver, Maps]]:
        """Yields each step's observer and maps."""
        step = await self._first
        del self._first
        state, product = step.state, step.product
        yield self.plan.steps[0], step.maps
        for number, observer in enumerate(self.plan.steps[1:], start=1):
            del step
            # Only the first step can be rejected.
            step = await self._step(number, state, product, admitted=True)
            state, product = step.state, step.product
            yield observer, step.maps

    def cancel(self) -> None:
        """Cancels the first step if nobody has read it."""
        if hasattr(self, "_first"):
            self._first.cancel()

    async def _step(self, number: int, state: State | None, product: torch.Tensor | None, *, admitted: bool) -> AttentionStep:
        observer = self.plan.steps[number].after(product)
        row = Row(self._call.model.encoder, self.plan.sequence, observer, self._gates, state)
        (step,) = await self._call.run([row], admitted=admitted)
        found: AttentionStep = step
        return found


def plan_extract_attention(
    request: attention_pb2.ExtractAttentionRequest, model: LoadedModel, limits: RequestLimits
) -> AttentionPlan:
    """Plans the answer. Raises InvalidArgument, and Unsupported for a model whose attention can't be observed."""
    require_observable(model)
    query = parse_extract_attention(request, model.encoder.shape, limits, model.name)
    require_quantity(model, query.quantity)
    plan = AttentionPlan(query, model.tokenizer)
    check_pairs(query.quantity, (text.sequence for text in plan.texts), limits)
    return plan


def parse_extract_attention(
    request: attention_pb2.ExtractAttentionRequest, shape: Shape, limits: RequestLimits, model: str
) -> AttentionQuery:
    """Converts the request to a query. Raises InvalidArgument."""
    inputs = check_inputs(request.inputs, limits)
    item_size = meaning(ITEM_SIZES, request.dtype, "dtype", "DATA_TYPE_FLOAT32 or DATA_TYPE_FLOAT16", "UNKNOWN_DTYPE")
    words = meaning(BY_WORD, request.level, "level", "ATTENTION_LEVEL_PIECE or ATTENTION_LEVEL_WORD", "UNKNOWN_LEVEL")
    quantity = read_quantity(request.quantity)
    if request.heads and not quantity.by_head:
        message = f"a layer has {quantity.value} once, not for each head; leave heads out, or ask for weights or norms"
        raise InvalidArgument("heads", message, "HEADS_UNUSED")
    return AttentionQuery(
        inputs,
        check_numbers(request.layers, "layers", "layer", shape.layers, model),
        check_numbers(request.heads, "heads", "head", shape.heads, model) if quantity.by_head else (0,),
        item_size,
        words,
        request.truncate,
        quantity,
    )


def render_header(index: int, plan: TextPlan, model: LoadedModel) -> attention_pb2.ExtractAttentionResponse:
    header = attention_pb2.AttentionHeader(
        input_index=index,
        tokens=[render_word(token) if isinstance(token, Word) else render_piece(token) for token in plan.tokens],
        layers=plan.query.layers,
        heads=plan.query.heads,
        attention=common_pb2.Tensor(dtype=DATA_TYPES[plan.query.itemsize], shape=plan.shape),
        truncated_tokens=plan.truncated,
        provenance=render_provenance(model),
        quantity=QUANTITY_NUMBERS[plan.query.quantity],
    )
    return attention_pb2.ExtractAttentionResponse(header=header)
