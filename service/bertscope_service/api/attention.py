"""The AttentionService."""

from __future__ import annotations

from collections.abc import AsyncIterator

from bertscope.v1 import attention_pb2, attention_pb2_grpc, attention_relations_pb2, attention_statistics_pb2, common_pb2

from bertscope_service.analyses.attention import (
    AttentionPlan,
    AttentionQuery,
    TextPlan,
)
from bertscope_service.api.answer import Backend, Context, answer
from bertscope_service.api.attention_comparison import compare_attention
from bertscope_service.api.attention_description import plan_description, render_description
from bertscope_service.api.attention_features import plan_features, render_features
from bertscope_service.api.attention_quantities import QUANTITY_NUMBERS, check_pairs, read_quantity, require_quantity
from bertscope_service.api.attention_relations import plan_relations, render_relations
from bertscope_service.api.checks import check_numbers, read_texts
from bertscope_service.api.data_types import DATA_TYPES, read_data_type
from bertscope_service.api.limits import RequestLimits
from bertscope_service.api.provenance import render_provenance
from bertscope_service.api.requirements import require_observable
from bertscope_service.api.tensor_streams import TensorStream, stream_tensors
from bertscope_service.api.tokens import render_token
from bertscope_service.encoders.base import Shape
from bertscope_service.errors import InvalidArgument
from bertscope_service.models.loaded import LoadedModel

BY_WORD = {number: number == attention_pb2.ATTENTION_LEVEL_WORD for number in attention_pb2.AttentionLevel.values()}


class AttentionServicer(attention_pb2_grpc.AttentionServiceServicer):
    """Serves AttentionService: streams attention maps, describes them, and scores them."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def ExtractAttention(  # type: ignore[override]  # the interceptor sends bytes as they are
        self, request: attention_pb2.ExtractAttentionRequest, context: Context
    ) -> AsyncIterator[attention_pb2.ExtractAttentionResponse | bytes]:
        return stream_tensors(self._backend, request, context, plan_extract_attention, MAPS)

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


def plan_extract_attention(
    request: attention_pb2.ExtractAttentionRequest, model: LoadedModel, limits: RequestLimits
) -> AttentionPlan:
    """Plans the answer. Raises InvalidArgument, and Unsupported for a model whose attention can't be observed."""
    require_observable(model)
    query = parse_extract_attention(request, model.encoder.shape, model.name)
    require_quantity(model, query.quantity, request)
    plan = AttentionPlan(query, model.tokenizer, model.encoder.device)
    check_pairs(query.quantity, (text.sequence for text in plan.texts), limits)
    return plan


def parse_extract_attention(request: attention_pb2.ExtractAttentionRequest, shape: Shape, model: str) -> AttentionQuery:
    """Converts the request to a query. Raises InvalidArgument."""
    inputs = read_texts(request.inputs)
    dtype = read_data_type(request.dtype)
    words = BY_WORD[request.level]
    quantity = read_quantity(request.quantity)
    if request.heads and not quantity.by_head:
        message = f"a layer has {quantity.value} once, not for each head; leave heads out, or ask for weights or norms"
        raise InvalidArgument("heads", message, "HEADS_UNUSED")
    return AttentionQuery(
        inputs,
        check_numbers(request.layers, "layers", "layer", shape.layers, model),
        check_numbers(request.heads, "heads", "head", shape.heads, model) if quantity.by_head else (0,),
        dtype,
        words,
        request.truncate,
        quantity,
    )


def render_header(index: int, plan: TextPlan, model: LoadedModel) -> attention_pb2.ExtractAttentionResponse:
    header = attention_pb2.AttentionHeader(
        input_index=index,
        tokens=map(render_token, plan.tokens),
        layers=plan.query.layers,
        heads=plan.query.heads,
        attention=common_pb2.Tensor(dtype=DATA_TYPES[plan.query.dtype], shape=plan.shape),
        truncated_tokens=plan.truncated,
        provenance=render_provenance(model),
        quantity=QUANTITY_NUMBERS[plan.query.quantity],
    )
    return attention_pb2.ExtractAttentionResponse(header=header)


MAPS = TensorStream(render_header, attention_pb2.AttentionChunk)
