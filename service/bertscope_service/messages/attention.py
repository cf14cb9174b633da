"""Requests and replies of AttentionService."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from bertscope.v1 import attention_pb2, common_pb2

from bertscope_service.analyses.attention import AttentionPlan, AttentionQuery, Word
from bertscope_service.encoders.base import Shape
from bertscope_service.errors import InvalidArgument
from bertscope_service.loaded import LoadedModel
from bertscope_service.messages.common import check_input, check_numbers, check_texts, render_provenance
from bertscope_service.messages.limits import RequestLimits
from bertscope_service.tokenization import Piece

CHUNK_BYTES = 1024 * 1024
"""Larger messages travel slower over loopback: 2.6 GB/s at 1 MiB, 1.2 at 4, 0.46 at 16 (measured with grpcio 1.76)."""

ITEM_SIZES = {common_pb2.DATA_TYPE_UNSPECIFIED: 4, common_pb2.DATA_TYPE_FLOAT32: 4, common_pb2.DATA_TYPE_FLOAT16: 2}
DATA_TYPES = {4: common_pb2.DATA_TYPE_FLOAT32, 2: common_pb2.DATA_TYPE_FLOAT16}


def parse_extract_attention(
    request: attention_pb2.ExtractAttentionRequest, shape: Shape, limits: RequestLimits, model: str
) -> AttentionQuery:
    """Raises InvalidArgument."""
    check_texts(request.inputs, "inputs", limits)
    inputs = tuple(check_input(entry, f"inputs[{index}]", limits) for index, entry in enumerate(request.inputs))
    if request.dtype not in ITEM_SIZES:
        message = f"dtype is {request.dtype}; set DATA_TYPE_FLOAT32 or DATA_TYPE_FLOAT16"
        raise InvalidArgument("dtype", message, "UNKNOWN_DTYPE")
    if request.level not in attention_pb2.AttentionLevel.values():
        message = f"level is {request.level}; set ATTENTION_LEVEL_PIECE or ATTENTION_LEVEL_WORD"
        raise InvalidArgument("level", message, "UNKNOWN_LEVEL")
    return AttentionQuery(
        inputs,
        check_numbers(request.layers, "layers", "layer", shape.layers, model),
        check_numbers(request.heads, "heads", "head", shape.heads, model),
        ITEM_SIZES[request.dtype],
        request.level == attention_pb2.ATTENTION_LEVEL_WORD,
        request.truncate,
    )


def render_header(index: int, plan: AttentionPlan, model: LoadedModel) -> attention_pb2.ExtractAttentionResponse:
    header = attention_pb2.AttentionHeader(
        input_index=index,
        tokens=[_render_word(token) if isinstance(token, Word) else _render_piece(token) for token in plan.tokens],
        layers=plan.query.layers,
        heads=plan.query.heads,
        attention=common_pb2.Tensor(dtype=DATA_TYPES[plan.query.itemsize], shape=plan.shape),
        truncated_tokens=plan.truncated,
        provenance=render_provenance(model),
    )
    return attention_pb2.ExtractAttentionResponse(header=header)


def render_chunks(index: int, offset: int, maps: np.ndarray[Any, Any]) -> Iterator[attention_pb2.ExtractAttentionResponse]:
    """One layer's maps, contiguous, as chunks; `offset` is where they begin in the text's tensor, bytes."""
    little = maps.astype(maps.dtype.newbyteorder("<"), copy=False)
    data = little.reshape(-1).view(np.uint8).data
    for begin in range(0, len(data), CHUNK_BYTES):
        chunk = attention_pb2.AttentionChunk(
            input_index=index, offset=offset + begin, data=bytes(data[begin : begin + CHUNK_BYTES])
        )
        yield attention_pb2.ExtractAttentionResponse(chunk=chunk)


def _render_piece(piece: Piece) -> common_pb2.Token:
    return common_pb2.Token(
        text=piece.text,
        id=piece.id,
        start=piece.start,
        end=piece.end,
        special=piece.special,
        word=piece.word,
        segment=piece.segment,
    )


def _render_word(word: Word) -> common_pb2.Token:
    first = word.pieces[0]
    return common_pb2.Token(
        text=word.text,
        id=first.id if len(word.pieces) == 1 else None,
        start=word.start,
        end=word.end,
        special=first.special,
        word=first.word,
        segment=first.segment,
        pieces=[piece.text for piece in word.pieces],
    )
