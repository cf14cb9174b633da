# Generated from uniform.py by `make client`. Do not edit: change that file, or the contract.
"""Builds the requests that train probes: `train_probe`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import SupportsIndex

from bertscope.questions.probes.probes import Pooling, ProbeEnding
from bertscope.v1 import representation_probes_pb2
from bertscope.values import validation
from bertscope.values.all_interventions import Interventions, intervention_fields
from bertscope.values.messages import Numbers, enum_value
from bertscope.values.models import Model, model_name


def train_probe_request(
    *,
    model: str | Model | None = None,
    layers: Numbers | None = None,
    pooling: Pooling = "mean",
    l2: float | None = None,
    max_epochs: SupportsIndex | None = None,
    patience: SupportsIndex | None = None,
    ending: ProbeEnding = "dev",
    hidden_units: SupportsIndex = 0,
    mix: bool = False,
    seeds: SupportsIndex = 1,
    seed: SupportsIndex = 0,
    weights: bool = False,
    truncate: bool = False,
    memory_bytes: SupportsIndex | None = None,
    interventions: Interventions = (),
    reference_texts: str | Iterable[str] = (),
) -> representation_probes_pb2.TrainProbeRequest:
    """Returns the request of TrainProbe, without its items."""
    return representation_probes_pb2.TrainProbeRequest(
        model=model_name("model", model),
        layers=validation.uint32s("layers", layers),
        pooling=enum_value("pooling", pooling, Pooling, representation_probes_pb2.TrainProbeRequest.Pooling),
        l2=None if l2 is None else validation.finite_number("l2", l2),
        max_epochs=0 if max_epochs is None else validation.positive("max_epochs", max_epochs),
        patience=0 if patience is None else validation.positive("patience", patience),
        seeds=validation.positive("seeds", seeds),
        seed=validation.uint64("seed", seed),
        weights=validation.flag("weights", weights),
        truncate=validation.flag("truncate", truncate),
        memory_bytes=None if memory_bytes is None else validation.uint64("memory_bytes", memory_bytes),
        **intervention_fields(interventions),
        reference_texts=validation.texts("reference_texts", reference_texts),
        ending=enum_value("ending", ending, ProbeEnding, representation_probes_pb2.TrainProbeRequest.Ending),
        hidden_units=validation.uint32("hidden_units", hidden_units),
        mix=validation.flag("mix", mix),
    )
