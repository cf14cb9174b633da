# Generated from eraser_uniform.py by `make client`. Do not edit: change that file, or the contract.
"""Builds the requests that train erasers: `train_eraser`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import SupportsIndex

from bertscope.questions.probes.erasers import EraserMethod
from bertscope.questions.probes.probes import Pooling
from bertscope.v1 import representation_eraser_pb2, representation_probes_pb2
from bertscope.values import validation
from bertscope.values.all_interventions import Interventions, intervention_fields
from bertscope.values.messages import Numbers, enum_value
from bertscope.values.models import Model, model_name


def train_eraser_request(
    *,
    method: EraserMethod = "leace",
    model: str | Model | None = None,
    layers: Numbers | None = None,
    rank: SupportsIndex | None = None,
    pooling: Pooling = "mean",
    seed: SupportsIndex = 0,
    truncate: bool = False,
    memory_bytes: SupportsIndex | None = None,
    interventions: Interventions = (),
    reference_texts: str | Iterable[str] = (),
) -> representation_eraser_pb2.TrainEraserRequest:
    """Returns the request of TrainEraser, without its items."""
    return representation_eraser_pb2.TrainEraserRequest(
        model=model_name("model", model),
        layers=validation.uint32s("layers", layers),
        pooling=enum_value("pooling", pooling, Pooling, representation_probes_pb2.TrainProbeRequest.Pooling),
        method=enum_value("method", method, EraserMethod, representation_eraser_pb2.TrainEraserRequest.Method),
        rank=0 if rank is None else validation.positive("rank", rank),
        seed=validation.uint64("seed", seed),
        truncate=validation.flag("truncate", truncate),
        memory_bytes=None if memory_bytes is None else validation.uint64("memory_bytes", memory_bytes),
        **intervention_fields(interventions),
        reference_texts=validation.texts("reference_texts", reference_texts),
    )
