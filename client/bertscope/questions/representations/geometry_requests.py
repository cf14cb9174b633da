# Generated from geometry_uniform.py by `make client`. Do not edit: change that file, or the contract.
"""Builds the requests for the geometry of hidden states: `describe_geometry`, `compare_representations`."""

from __future__ import annotations

from collections.abc import Iterable

from bertscope.v1 import representation_geometry_pb2
from bertscope.values import validation
from bertscope.values.all_interventions import Interventions, intervention_fields
from bertscope.values.messages import Numbers
from bertscope.values.models import Model, model_name


def describe_geometry_request(
    *,
    model: str | Model | None = None,
    layers: Numbers | None = None,
    pieces: bool = False,
    special_tokens: bool = False,
    words: str | Iterable[str] = (),
    second_moments: bool = False,
    interventions: Interventions = (),
    reference_texts: str | Iterable[str] = (),
    truncate: bool = False,
) -> representation_geometry_pb2.DescribeGeometryRequest:
    """Returns the request of DescribeGeometry, without its items."""
    return representation_geometry_pb2.DescribeGeometryRequest(
        model=model_name("model", model),
        layers=validation.uint32s("layers", layers),
        pieces=validation.flag("pieces", pieces),
        special_tokens=validation.flag("special_tokens", special_tokens),
        words=validation.texts("words", words),
        second_moments=validation.flag("second_moments", second_moments),
        **intervention_fields(interventions),
        reference_texts=validation.texts("reference_texts", reference_texts),
        truncate=validation.flag("truncate", truncate),
    )


def compare_representations_request(
    *,
    other_model: str | Model | None = None,
    model: str | Model | None = None,
    layers: Numbers | None = None,
    other_layers: Numbers | None = None,
    interventions: Interventions = (),
    reference_texts: str | Iterable[str] = (),
    truncate: bool = False,
) -> representation_geometry_pb2.CompareRepresentationsRequest:
    """Returns the request of CompareRepresentations, without its items."""
    return representation_geometry_pb2.CompareRepresentationsRequest(
        model=model_name("model", model),
        other_model=model_name("other_model", other_model),
        layers=validation.uint32s("layers", layers),
        other_layers=validation.uint32s("other_layers", other_layers),
        **intervention_fields(interventions),
        reference_texts=validation.texts("reference_texts", reference_texts),
        truncate=validation.flag("truncate", truncate),
    )
