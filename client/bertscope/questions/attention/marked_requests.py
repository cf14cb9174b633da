# Generated from marked_uniform.py by `make client`. Do not edit: change that file, or the contract.
"""Builds the requests for attention between marked words: `score_relations`, `score_features`."""

from __future__ import annotations

from collections.abc import Iterable

from bertscope.v1 import attention_relations_pb2
from bertscope.values import validation
from bertscope.values.all_interventions import Interventions, intervention_fields
from bertscope.values.models import Model, model_name


def score_relations_request(
    *,
    relations: str | Iterable[str] | None = None,
    model: str | Model | None = None,
    details: bool = True,
    interventions: Interventions = (),
    reference_texts: str | Iterable[str] = (),
) -> attention_relations_pb2.ScoreRelationsRequest:
    """Returns the request of ScoreRelations, without its items."""
    return attention_relations_pb2.ScoreRelationsRequest(
        model=model_name("model", model),
        relations=validation.some_texts("relations", relations),
        details=validation.flag("details", details),
        **intervention_fields(interventions),
        reference_texts=validation.texts("reference_texts", reference_texts),
    )


def score_features_request(
    *,
    features: str | Iterable[str] | None = None,
    model: str | Model | None = None,
    special_tokens: bool = True,
    interventions: Interventions = (),
    reference_texts: str | Iterable[str] = (),
) -> attention_relations_pb2.ScoreFeaturesRequest:
    """Returns the request of ScoreFeatures, without its items."""
    return attention_relations_pb2.ScoreFeaturesRequest(
        model=model_name("model", model),
        features=validation.some_texts("features", features),
        special_tokens=validation.flag("special_tokens", special_tokens),
        **intervention_fields(interventions),
        reference_texts=validation.texts("reference_texts", reference_texts),
    )
