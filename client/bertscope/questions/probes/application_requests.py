# Generated from application_uniform.py by `make client`. Do not edit: change that file, or the contract.
"""Builds the requests that apply kept probes: `apply_probe`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import SupportsIndex

from bertscope.v1 import representation_probe_application_pb2
from bertscope.values import validation
from bertscope.values.all_interventions import Interventions, intervention_fields
from bertscope.values.models import Model, model_name


def apply_probe_request(
    *,
    model: str | Model | None = None,
    top_k: SupportsIndex = 1,
    truncate: bool = False,
    interventions: Interventions = (),
    reference_texts: str | Iterable[str] = (),
) -> representation_probe_application_pb2.ApplyProbeRequest:
    """Returns the request of ApplyProbe, without its items."""
    return representation_probe_application_pb2.ApplyProbeRequest(
        model=model_name("model", model),
        top_k=validation.positive("top_k", top_k),
        truncate=validation.flag("truncate", truncate),
        **intervention_fields(interventions),
        reference_texts=validation.texts("reference_texts", reference_texts),
    )
