"""Checks, plans and renders ExtractHiddenStates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bertscope.v1 import common_pb2
from bertscope.v1 import representation_states_pb2 as states_pb2

from bertscope_service.analyses.observers.pooling import Pooling
from bertscope_service.analyses.observers.state_quantities import StateQuantity
from bertscope_service.analyses.state_units import StatesInput, Unit
from bertscope_service.analyses.states import StatesPlan, StatesQuery, TextStates
from bertscope_service.analyses.words import Span
from bertscope_service.api.checks import check_numbers, read_texts
from bertscope_service.api.data_types import DATA_TYPES, read_data_type
from bertscope_service.api.enums import members, numbers
from bertscope_service.api.limits import RequestLimits
from bertscope_service.api.provenance import render_provenance
from bertscope_service.api.requirements import require_declared_pooling, require_last_states, require_quantity
from bertscope_service.api.spans import check_apart, check_span
from bertscope_service.api.tensor_streams import TensorStream
from bertscope_service.api.tokens import render_token
from bertscope_service.checkpoints.declared_pooling import DeclaredPooling
from bertscope_service.errors import InvalidArgument
from bertscope_service.models.loaded import LoadedModel

_UNIT, _POOLING, _QUANTITY = "STATE_UNIT_", "STATE_POOLING_", "STATE_QUANTITY_"
DECLARED = states_pb2.STATE_POOLING_DECLARED
UNIT_NUMBERS = numbers(Unit, states_pb2.StateUnit, _UNIT)
QUANTITY_NUMBERS = numbers(StateQuantity, states_pb2.StateQuantity, _QUANTITY)
QUANTITIES: dict[int, StateQuantity] = {
    states_pb2.STATE_QUANTITY_UNSPECIFIED: StateQuantity.HIDDEN,
    **members(StateQuantity, states_pb2.StateQuantity, _QUANTITY),
}
POOLING_NUMBERS = numbers(Pooling, states_pb2.StatePooling, _POOLING)
UNITS: dict[int, Unit] = {states_pb2.STATE_UNIT_UNSPECIFIED: Unit.PIECE, **members(Unit, states_pb2.StateUnit, _UNIT)}
POOLINGS: dict[int, Pooling] = {
    states_pb2.STATE_POOLING_UNSPECIFIED: Pooling.MEAN,
    DECLARED: Pooling.MEAN,  # what a model declares takes its place
    **members(Pooling, states_pb2.StatePooling, _POOLING),
}


def plan_extract_hidden_states(
    request: states_pb2.ExtractHiddenStatesRequest, model: LoadedModel, limits: RequestLimits
) -> StatesPlan:
    """Plans the answer. Raises InvalidArgument, and Unsupported for a model that shows no hidden states."""
    shape = model.encoder.shape
    quantity = QUANTITIES[request.quantity]
    sizes = require_quantity(model, quantity)
    unit = UNITS[request.unit]
    declared = _check_declared(request, unit, model) if request.pooling == DECLARED else None
    what, count = ("state", shape.layers + 1) if quantity is StateQuantity.HIDDEN else ("layer", shape.layers)
    layers = check_numbers(request.layers, "layers", what, count, model.name)
    layers = layers if declared is None else (shape.layers,)
    require_last_states(model, layers)
    query = StatesQuery(
        inputs=_check_inputs(request, unit),
        layers=layers,
        dtype=read_data_type(request.dtype),
        truncate=request.truncate,
        unit=unit,
        pooling=POOLINGS[request.pooling],
        declared=declared,
        quantity=quantity,
    )
    if unit is Unit.PIECE and request.pooling:
        message = "states of pieces are not pooled; leave pooling out, or ask for words, spans or texts"
        raise InvalidArgument("pooling", message, "POOLING_UNUSED")
    return StatesPlan(query, model.tokenizer, sizes)


def _check_declared(request: states_pb2.ExtractHiddenStatesRequest, unit: Unit, model: LoadedModel) -> DeclaredPooling:
    """Checks that a request fits the pooling that the model declares, which it returns."""
    declared, last = require_declared_pooling(model), model.encoder.shape.layers
    if unit is not Unit.TEXT:
        message = "the declared pooling is that of texts; set unit to STATE_UNIT_TEXT, or another pooling"
        raise InvalidArgument("pooling", message, "POOLING_OF_TEXTS")
    if request.quantity not in (states_pb2.STATE_QUANTITY_UNSPECIFIED, states_pb2.STATE_QUANTITY_HIDDEN):
        message = "the declared pooling is that of hidden states; leave quantity out, or set another pooling"
        raise InvalidArgument("quantity", message, "POOLING_OF_STATES")
    other = next((index for index, layer in enumerate(request.layers) if layer != last), None)
    if other is not None:
        message = f"the declared pooling is that of the last states, {last}; leave layers out, or set another pooling"
        raise InvalidArgument(f"layers[{other}]", message, "POOLING_OF_LAST_LAYER")
    check_prompt(request.inputs, declared)
    return declared


def check_prompt(inputs: Iterable[common_pb2.TextInput], declared: DeclaredPooling) -> None:
    """Raises InvalidArgument for a pair of texts where a prompt is declared."""
    pair = next((index for index, given in enumerate(inputs) if given.HasField("text_pair")), None)
    if declared.prompt and pair is not None:
        message = "the declared prompt is that of single texts; leave text_pair out, or set another pooling"
        raise InvalidArgument(f"inputs[{pair}].text_pair", message, "PROMPT_OF_PAIR")


def _check_inputs(request: states_pb2.ExtractHiddenStatesRequest, unit: Unit) -> tuple[StatesInput, ...]:
    """Checks the texts and pairs, and their marked parts. Returns them."""
    inputs = read_texts(request.inputs)
    if unit is not Unit.SPAN:
        if request.spans:
            message = "parts of texts are marked, and the unit is no span; leave spans out, or set unit to STATE_UNIT_SPAN"
            raise InvalidArgument("spans", message, "SPANS_UNUSED")
        return tuple(StatesInput(*texts) for texts in inputs)
    if len(request.spans) != len(inputs):
        message = f"spans has {len(request.spans)} entries and inputs {len(inputs)}; mark the parts of each text"
        raise InvalidArgument("spans", message, "SPANS_MISMATCH")
    return tuple(
        StatesInput(*texts, _check_spans(given.spans, f"spans[{index}].spans", texts))
        for index, (texts, given) in enumerate(zip(inputs, request.spans, strict=True))
    )


def _check_spans(given: Sequence[common_pb2.CharacterSpan], field: str, texts: tuple[str, str | None]) -> tuple[Span, ...]:
    spans = tuple(check_span(span, f"{field}[{index}]", texts) for index, span in enumerate(given))
    check_apart(spans, field)
    return spans


def render_header(index: int, text: TextStates, model: LoadedModel) -> states_pb2.ExtractHiddenStatesResponse:
    query = text.query
    header = states_pb2.StatesHeader(
        input_index=index,
        tokens=map(render_token, text.tokens),
        layers=text.layers,
        states=common_pb2.Tensor(dtype=DATA_TYPES[query.dtype], shape=text.shape),
        truncated_tokens=text.truncated,
        provenance=render_provenance(model),
        unit=UNIT_NUMBERS[query.unit],
        pooling=_pooling_of(query),
        quantity=QUANTITY_NUMBERS[query.quantity],
    )
    return states_pb2.ExtractHiddenStatesResponse(header=header)


def _pooling_of(query: StatesQuery) -> states_pb2.StatePooling.ValueType:
    if query.declared is not None:
        return DECLARED
    pooling: states_pb2.StatePooling.ValueType = POOLING_NUMBERS[query.pooling]
    return states_pb2.STATE_POOLING_UNSPECIFIED if query.unit is Unit.PIECE else pooling


STATES = TensorStream(render_header, states_pb2.StatesChunk)
