# Generated from statistics_uniform.py by `make client`. Do not edit: change that file, or the contract.
"""Builds the requests that describe and compare attention: `describe_attention`, `compare_attention`."""

from __future__ import annotations

from collections.abc import Iterable

from bertscope.v1 import attention_statistics_pb2
from bertscope.values import validation
from bertscope.values.all_interventions import Interventions, intervention_fields
from bertscope.values.choices import Quantity
from bertscope.values.messages import Numbers, enum_value
from bertscope.values.models import Model, model_name


def describe_attention_request(
    *,
    model: str | Model | None = None,
    layers: Numbers | None = None,
    punctuation: str | Iterable[str] | None = None,
    head_distances: bool = False,
    quantity: Quantity = "weights",
    interventions: Interventions = (),
    reference_texts: str | Iterable[str] = (),
    truncate: bool = False,
) -> attention_statistics_pb2.DescribeAttentionRequest:
    """Returns the request of DescribeAttention, without its items."""
    return attention_statistics_pb2.DescribeAttentionRequest(
        model=model_name("model", model),
        layers=validation.uint32s("layers", layers),
        punctuation=validation.some_texts("punctuation", punctuation),
        head_distances=validation.flag("head_distances", head_distances),
        **intervention_fields(interventions),
        reference_texts=validation.texts("reference_texts", reference_texts),
        truncate=validation.flag("truncate", truncate),
        quantity=enum_value("quantity", quantity, Quantity, attention_statistics_pb2.AttentionQuantity),
    )


def compare_attention_request(
    *,
    other_model: str | Model | None = None,
    model: str | Model | None = None,
    punctuation: str | Iterable[str] | None = None,
    interventions: Interventions = (),
    reference_texts: str | Iterable[str] = (),
    truncate: bool = False,
) -> attention_statistics_pb2.CompareAttentionRequest:
    """Returns the request of CompareAttention, without its items."""
    return attention_statistics_pb2.CompareAttentionRequest(
        model=model_name("model", model),
        other_model=model_name("other_model", other_model),
        punctuation=validation.some_texts("punctuation", punctuation),
        **intervention_fields(interventions),
        reference_texts=validation.texts("reference_texts", reference_texts),
        truncate=validation.flag("truncate", truncate),
    )
