# Generated from codes_uniform.py by `make client`. Do not edit: change that file, or the contract.
"""Builds the requests for sparse codes: `train_codes`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import SupportsIndex

from bertscope.v1 import representation_codes_pb2
from bertscope.values import validation
from bertscope.values.all_interventions import Interventions, intervention_fields
from bertscope.values.models import Model, model_name


def train_codes_request(
    *,
    layer: SupportsIndex,
    model: str | Model | None = None,
    codes: SupportsIndex | None = None,
    active: SupportsIndex | None = None,
    mask_rate: float | None = None,
    learning_rate: float | None = None,
    epochs: SupportsIndex | None = None,
    seed: SupportsIndex = 0,
    truncate: bool = False,
    memory_bytes: SupportsIndex | None = None,
    interventions: Interventions = (),
    reference_texts: str | Iterable[str] = (),
) -> representation_codes_pb2.TrainCodesRequest:
    """Returns the request of TrainCodes, without its items."""
    return representation_codes_pb2.TrainCodesRequest(
        model=model_name("model", model),
        layer=validation.positive("layer", layer),
        codes=0 if codes is None else validation.positive("codes", codes),
        active=0 if active is None else validation.positive("active", active),
        mask_rate=None if mask_rate is None else validation.finite_number("mask_rate", mask_rate),
        learning_rate=None if learning_rate is None else validation.finite_number("learning_rate", learning_rate),
        epochs=0 if epochs is None else validation.positive("epochs", epochs),
        seed=validation.uint64("seed", seed),
        truncate=validation.flag("truncate", truncate),
        memory_bytes=None if memory_bytes is None else validation.uint64("memory_bytes", memory_bytes),
        **intervention_fields(interventions),
        reference_texts=validation.texts("reference_texts", reference_texts),
    )
