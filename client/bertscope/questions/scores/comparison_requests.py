# Generated from comparison_uniform.py by `make client`. Do not edit: change that file, or the contract.
"""Builds the requests that compare texts by their scores: `compare_texts`."""

from __future__ import annotations

from collections.abc import Iterable

from bertscope.v1 import cloze_scores_pb2, common_pb2
from bertscope.values import validation
from bertscope.values.all_interventions import Interventions, intervention_fields
from bertscope.values.choices import Scoring
from bertscope.values.messages import enum_value
from bertscope.values.models import Model, model_name


def compare_texts_request(
    *,
    model: str | Model | None = None,
    scoring: Scoring = "within_word",
    interventions: Interventions = (),
    reference_texts: str | Iterable[str] = (),
    truncate: bool = False,
) -> cloze_scores_pb2.CompareTextsRequest:
    """Returns the request of CompareTexts, without its items."""
    return cloze_scores_pb2.CompareTextsRequest(
        model=model_name("model", model),
        scoring=enum_value("scoring", scoring, Scoring, common_pb2.PseudoLogLikelihood),
        **intervention_fields(interventions),
        truncate=validation.flag("truncate", truncate),
        reference_texts=validation.texts("reference_texts", reference_texts),
    )
