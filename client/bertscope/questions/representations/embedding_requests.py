# Generated from embedding_uniform.py by `make client`. Do not edit: change that file, or the contract.
"""Builds the requests for vectors of texts: `embed_texts`."""

from __future__ import annotations

from collections.abc import Iterable

from bertscope.v1 import representation_states_pb2
from bertscope.values import validation
from bertscope.values.all_interventions import Interventions, intervention_fields
from bertscope.values.choices import StatePooling
from bertscope.values.messages import enum_value
from bertscope.values.models import Model, model_name


def embed_texts_request(
    *,
    model: str | Model | None = None,
    pooling: StatePooling | None = None,
    normalize: bool | None = None,
    interventions: Interventions = (),
    reference_texts: str | Iterable[str] = (),
    truncate: bool = False,
) -> representation_states_pb2.EmbedTextsRequest:
    """Returns the request of EmbedTexts, without its items."""
    return representation_states_pb2.EmbedTextsRequest(
        model=model_name("model", model),
        pooling=enum_value("pooling", pooling, StatePooling, representation_states_pb2.StatePooling),
        normalize=None if normalize is None else validation.flag("normalize", normalize),
        **intervention_fields(interventions),
        reference_texts=validation.texts("reference_texts", reference_texts),
        truncate=validation.flag("truncate", truncate),
    )
