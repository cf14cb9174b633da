# Generated from tuned_lens_uniform.py by `make client`. Do not edit: change that file, or the contract.
"""Builds the requests for tuned lenses: `train_lens`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import SupportsIndex

from bertscope.v1 import representation_lens_pb2, representation_tuned_lens_pb2
from bertscope.values import validation
from bertscope.values.all_interventions import Interventions, intervention_fields
from bertscope.values.choices import LensNormalisation
from bertscope.values.messages import Numbers, enum_value
from bertscope.values.models import Model, model_name


def train_lens_request(
    *,
    model: str | Model | None = None,
    layers: Numbers | None = None,
    mask_rate: float | None = None,
    normalisation: LensNormalisation | None = None,
    learning_rate: float | None = None,
    max_epochs: SupportsIndex | None = None,
    patience: SupportsIndex | None = None,
    seed: SupportsIndex = 0,
    truncate: bool = False,
    memory_bytes: SupportsIndex | None = None,
    interventions: Interventions = (),
    reference_texts: str | Iterable[str] = (),
) -> representation_tuned_lens_pb2.TrainLensRequest:
    """Returns the request of TrainLens, without its items."""
    return representation_tuned_lens_pb2.TrainLensRequest(
        model=model_name("model", model),
        layers=validation.uint32s("layers", layers),
        mask_rate=None if mask_rate is None else validation.finite_number("mask_rate", mask_rate),
        normalisation=enum_value("normalisation", normalisation, LensNormalisation, representation_lens_pb2.LensNormalisation),
        learning_rate=None if learning_rate is None else validation.finite_number("learning_rate", learning_rate),
        max_epochs=0 if max_epochs is None else validation.positive("max_epochs", max_epochs),
        patience=0 if patience is None else validation.positive("patience", patience),
        seed=validation.uint64("seed", seed),
        truncate=validation.flag("truncate", truncate),
        memory_bytes=None if memory_bytes is None else validation.uint64("memory_bytes", memory_bytes),
        **intervention_fields(interventions),
        reference_texts=validation.texts("reference_texts", reference_texts),
    )
