"""Reads the requests of Inspect, checked."""

from __future__ import annotations

import torch
from bertscope.v1 import inspection_pb2

from bertscope_service.analyses.inspection import InspectionPlan, InspectionQuery, ViewQuery
from bertscope_service.api.attention import BY_WORD
from bertscope_service.api.checks import check_top_k, parse_layer_heads, read_text
from bertscope_service.api.limits import RequestLimits
from bertscope_service.api.requirements import require_observable
from bertscope_service.encoders.base import Shape
from bertscope_service.errors import InvalidArgument
from bertscope_service.models.loaded import LoadedModel

FORMATS = {
    inspection_pb2.MAP_FORMAT_UNSPECIFIED: torch.float16,
    inspection_pb2.MAP_FORMAT_UINT8: torch.uint8,
    inspection_pb2.MAP_FORMAT_FLOAT16: torch.float16,
    inspection_pb2.MAP_FORMAT_FLOAT32: torch.float32,
}


def plan_inspection(request: inspection_pb2.InspectRequest, model: LoadedModel, limits: RequestLimits) -> InspectionPlan:
    """Plans the answer. Raises InvalidArgument, and Unsupported for maps of a model whose attention can't be observed."""
    require_observable(model, asked=bool(request.maps))
    predicts = model.encoder.capabilities.masked_lm and model.tokenizer.mask_id is not None
    query = parse_inspection(request, model.encoder.shape, limits, model.name)
    return InspectionPlan(query, model.tokenizer, predicts=predicts)


def parse_inspection(
    request: inspection_pb2.InspectRequest, shape: Shape, limits: RequestLimits, model: str
) -> InspectionQuery:
    """Converts the request to a query. Raises InvalidArgument."""
    text, text_pair = read_text(request.input)
    return InspectionQuery(
        text,
        text_pair,
        check_top_k(request, shape.vocabulary_size),
        tuple(request.candidates),
        request.truncate,
        request.compare_untouched and bool(request.interventions),
        request.divergences,
        tuple(_read_view(request, index, shape, model) for index in range(len(request.maps))),
        BY_WORD[request.level],
    )


def _read_view(request: inspection_pb2.InspectRequest, index: int, shape: Shape, model: str) -> ViewQuery:
    """Returns one entry of `maps`. Raises InvalidArgument."""
    view, field = request.maps[index], f"maps[{index}]"
    if view.untouched and request.interventions and not request.compare_untouched:
        message = f"{field}.untouched asks for maps of a run that is not asked for; set compare_untouched"
        raise InvalidArgument(f"{field}.untouched", message, "UNTOUCHED_NOT_RUN")
    heads = parse_layer_heads(view.heads, f"{field}.heads", shape, model) if view.heads else ()
    return ViewQuery(
        heads or tuple((layer, tuple(range(shape.heads))) for layer in range(shape.layers)),
        view.pixels,
        (view.rows.start, view.rows.end) if view.HasField("rows") else None,
        (view.columns.start, view.columns.end) if view.HasField("columns") else None,
        FORMATS[view.format],
        view.untouched,
    )
