"""Checks, plans and renders ExtractHiddenStates."""

from __future__ import annotations

from bertscope.v1 import common_pb2, representation_states_pb2

from bertscope_service.analyses.states import StatesPlan, StatesQuery, TextStates
from bertscope_service.api.checks import check_inputs, check_numbers
from bertscope_service.api.data_types import DATA_TYPES, read_data_type
from bertscope_service.api.limits import RequestLimits
from bertscope_service.api.provenance import render_provenance
from bertscope_service.api.requirements import require_states
from bertscope_service.api.tensor_streams import TensorStream
from bertscope_service.api.tokens import render_token
from bertscope_service.models.loaded import LoadedModel


def plan_extract_hidden_states(
    request: representation_states_pb2.ExtractHiddenStatesRequest, model: LoadedModel, limits: RequestLimits
) -> StatesPlan:
    """Plans the answer. Raises InvalidArgument, and Unsupported for a model that shows no hidden states."""
    require_states(model)
    shape = model.encoder.shape
    query = StatesQuery(
        inputs=check_inputs(request.inputs, limits),
        layers=check_numbers(request.layers, "layers", "layer", shape.layers + 1, model.name),
        dtype=read_data_type(request.dtype),
        truncate=request.truncate,
    )
    return StatesPlan(query, model.tokenizer, shape.hidden_size)


def render_header(index: int, text: TextStates, model: LoadedModel) -> representation_states_pb2.ExtractHiddenStatesResponse:
    header = representation_states_pb2.StatesHeader(
        input_index=index,
        tokens=map(render_token, text.tokens),
        layers=text.layers,
        states=common_pb2.Tensor(dtype=DATA_TYPES[text.dtype], shape=text.shape),
        truncated_tokens=text.truncated,
        provenance=render_provenance(model),
    )
    return representation_states_pb2.ExtractHiddenStatesResponse(header=header)


STATES = TensorStream(render_header, representation_states_pb2.StatesChunk)
