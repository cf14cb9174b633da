"""Checks, plans and renders EmbedTexts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from bertscope.v1 import common_pb2
from bertscope.v1 import representation_states_pb2 as states_pb2

from bertscope_service.analyses.layer_steps import LayerStep
from bertscope_service.analyses.observers.declared_pooling import SHORTEST
from bertscope_service.analyses.observers.state_quantities import StateQuantity
from bertscope_service.analyses.state_units import StatesInput, Unit
from bertscope_service.analyses.states import StatesPlan, StatesQuery
from bertscope_service.analyses.texts import check_finite
from bertscope_service.api.checks import read_texts
from bertscope_service.api.data_types import read_data_type
from bertscope_service.api.limits import RequestLimits
from bertscope_service.api.matrices import render_matrix
from bertscope_service.api.provenance import render_provenance
from bertscope_service.api.representation_states import DECLARED, POOLINGS, check_prompt
from bertscope_service.api.requirements import require_declared_pooling, require_last_states, require_quantity
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.models.loaded import LoadedModel


class EmbedPlan(StatesPlan):
    """The plan to make one vector of each text. Its `pooling` is that of the contract."""

    def __init__(
        self,
        query: StatesQuery,
        tokenizer: TextTokenizer,
        size: int,
        pooling: states_pb2.StatePooling.ValueType,
        *,
        normalize: bool,
    ) -> None:
        super().__init__(query, tokenizer, (size,))
        self.pooling, self.normalize = pooling, normalize

    @property
    def reply_bytes(self) -> int:
        """Size of the vectors, bytes."""
        return sum(text.bytes for text in self.texts)


def plan_embed(request: states_pb2.EmbedTextsRequest, model: LoadedModel, limits: RequestLimits) -> EmbedPlan:
    """Plans the answer. Raises InvalidArgument, and Unsupported for a model that shows no hidden states, or declares a pooling
    that can't be used."""
    require_last_states(model, (model.encoder.shape.layers,))
    (size,) = require_quantity(model, StateQuantity.HIDDEN)
    pooling = request.pooling or (states_pb2.STATE_POOLING_MEAN if model.declared is None else DECLARED)
    declared = require_declared_pooling(model) if pooling == DECLARED else None
    normalize = request.normalize
    if declared is not None:
        check_prompt(request.inputs, declared)
        normalize = request.normalize if request.HasField("normalize") else declared.normalised
        declared = replace(declared, normalised=False)  # Vectors are divided by their length when all are there.
    query = StatesQuery(
        inputs=tuple(StatesInput(*texts) for texts in read_texts(request.inputs)),
        layers=(model.encoder.shape.layers,),
        dtype=read_data_type(common_pb2.DATA_TYPE_FLOAT32),
        truncate=request.truncate,
        unit=Unit.TEXT,
        pooling=POOLINGS[pooling],
        declared=declared,
    )
    return EmbedPlan(query, model.tokenizer, size, pooling, normalize=normalize)


def render_embed(plan: EmbedPlan, steps: Sequence[LayerStep], model: LoadedModel) -> states_pb2.EmbedTextsResponse:
    check_finite((step.values for step in steps), "states", "STATES_NOT_FINITE")
    vectors = np.concatenate([step.values[0] for step in steps])
    if plan.normalize:
        vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), SHORTEST)
    return states_pb2.EmbedTextsResponse(
        vectors=render_matrix(vectors),
        tokens=[len(text.sequence.ids) for text in plan.texts],
        truncated_tokens=[text.truncated for text in plan.texts],
        pooling=plan.pooling,
        normalized=plan.normalize,
        provenance=render_provenance(model),
    )
