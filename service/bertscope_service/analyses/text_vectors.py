"""Vectors of whole texts, as EmbedTexts makes them: one row for each text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.analyses.layer_steps import LayerStep
from bertscope_service.analyses.observers.declared_pooling import SHORTEST
from bertscope_service.analyses.observers.pooling import Pooling
from bertscope_service.analyses.state_units import StatesInput, Unit
from bertscope_service.analyses.states import StatesPlan, StatesQuery
from bertscope_service.analyses.texts import check_finite
from bertscope_service.checkpoints.declared_pooling import DeclaredPooling
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.base import Shape


def plan_vectors(
    texts: Sequence[str],
    fields: Sequence[str],
    tokenizer: TextTokenizer,
    shape: Shape,
    declared: DeclaredPooling | None,
    *,
    pooling: Pooling = Pooling.MEAN,
    truncate: bool | None = None,
) -> StatesPlan:
    """Plans a vector of each text from the last layer; `declared` takes the place of `pooling`. `fields` are the texts' in the
    request, which can't cut them if `truncate` is None. Raises InvalidArgument for a text that is too long or empty."""
    query = StatesQuery(
        inputs=tuple(map(StatesInput, texts)),
        layers=(shape.layers,),
        dtype=torch.float32,
        truncate=truncate,
        unit=Unit.TEXT,
        pooling=pooling,
        declared=declared,
    )
    return StatesPlan(query, tokenizer, (shape.hidden_size,), fields)


def unit_vectors(steps: Sequence[LayerStep]) -> NDArray[np.float64]:
    """Returns the vectors of texts, each divided by its length, [texts, size]. Raises FailedPrecondition for one that is not
    finite."""
    vectors: NDArray[np.float64] = np.stack([step.values[0, 0] for step in steps]).astype(np.float64)
    check_finite([vectors], "states", "STATES_NOT_FINITE")
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), SHORTEST)
    return vectors
