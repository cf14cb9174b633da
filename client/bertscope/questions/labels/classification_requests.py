# Generated from classification_uniform.py by `make client`. Do not edit: change that file, or the contract.
"""Builds the requests for labels and values of texts: `classify`, `classify_tokens`, `predict_values`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import SupportsIndex

from bertscope.v1 import classification_pb2
from bertscope.values import validation
from bertscope.values.all_interventions import Interventions, intervention_fields
from bertscope.values.models import Model, model_name


def classify_request(
    *,
    model: str | Model | None = None,
    interventions: Interventions = (),
    reference_texts: str | Iterable[str] = (),
    truncate: bool = False,
) -> classification_pb2.ClassifyRequest:
    """Returns the request of Classify, without its items."""
    return classification_pb2.ClassifyRequest(
        model=model_name("model", model),
        **intervention_fields(interventions),
        reference_texts=validation.texts("reference_texts", reference_texts),
        truncate=validation.flag("truncate", truncate),
    )


def classify_tokens_request(
    *,
    model: str | Model | None = None,
    top_k: SupportsIndex = 1,
    interventions: Interventions = (),
    reference_texts: str | Iterable[str] = (),
    truncate: bool = False,
) -> classification_pb2.ClassifyTokensRequest:
    """Returns the request of ClassifyTokens, without its items."""
    return classification_pb2.ClassifyTokensRequest(
        model=model_name("model", model),
        top_k=validation.positive("top_k", top_k),
        **intervention_fields(interventions),
        reference_texts=validation.texts("reference_texts", reference_texts),
        truncate=validation.flag("truncate", truncate),
    )


def predict_values_request(
    *,
    model: str | Model | None = None,
    interventions: Interventions = (),
    reference_texts: str | Iterable[str] = (),
    truncate: bool = False,
) -> classification_pb2.PredictValuesRequest:
    """Returns the request of PredictValues, without its items."""
    return classification_pb2.PredictValuesRequest(
        model=model_name("model", model),
        **intervention_fields(interventions),
        reference_texts=validation.texts("reference_texts", reference_texts),
        truncate=validation.flag("truncate", truncate),
    )
