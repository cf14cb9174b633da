# Generated from structural_uniform.py by `make client`. Do not edit: change that file, or the contract.
"""Builds the requests that train structural probes: `train_structural_probe`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import SupportsIndex

from bertscope.questions.probes.probes import Pooling
from bertscope.questions.probes.structural_probes import (
    Quantity,
)
from bertscope.v1 import representation_probes_pb2, representation_structural_probes_pb2
from bertscope.values import validation
from bertscope.values.all_interventions import Interventions, intervention_fields
from bertscope.values.messages import Numbers, enum_value
from bertscope.values.models import Model, model_name


def train_structural_probe_request(
    *,
    quantity: Quantity = "distance",
    model: str | Model | None = None,
    layers: Numbers | None = None,
    rank: SupportsIndex | None = None,
    pooling: Pooling = "mean",
    max_epochs: SupportsIndex | None = None,
    patience: SupportsIndex | None = None,
    seeds: SupportsIndex = 1,
    seed: SupportsIndex = 0,
    truncate: bool = False,
    memory_bytes: SupportsIndex | None = None,
    interventions: Interventions = (),
    reference_texts: str | Iterable[str] = (),
) -> representation_structural_probes_pb2.TrainStructuralProbeRequest:
    """Returns the request of TrainStructuralProbe, without its items."""
    return representation_structural_probes_pb2.TrainStructuralProbeRequest(
        model=model_name("model", model),
        quantity=enum_value(
            "quantity", quantity, Quantity, representation_structural_probes_pb2.TrainStructuralProbeRequest.Quantity
        ),
        layers=validation.uint32s("layers", layers),
        rank=0 if rank is None else validation.positive("rank", rank),
        pooling=enum_value("pooling", pooling, Pooling, representation_probes_pb2.TrainProbeRequest.Pooling),
        max_epochs=0 if max_epochs is None else validation.positive("max_epochs", max_epochs),
        patience=0 if patience is None else validation.positive("patience", patience),
        seeds=validation.positive("seeds", seeds),
        seed=validation.uint64("seed", seed),
        truncate=validation.flag("truncate", truncate),
        memory_bytes=None if memory_bytes is None else validation.uint64("memory_bytes", memory_bytes),
        **intervention_fields(interventions),
        reference_texts=validation.texts("reference_texts", reference_texts),
    )
