"""Builds the request of CompressModel and reads its events."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from bertscope import _validation
from bertscope._display import short_repr
from bertscope._messages import PRECISIONS, read, values
from bertscope.compression.steps import (
    Criterion,
    FeedForwardRemoval,
    HalfPrecision,
    HeadRemoval,
    Int8Quantization,
    LayerSelection,
    MagnitudePruning,
    OnnxExport,
    Step,
    TokenElimination,
    VocabularyReduction,
    WeightOnlyQuantization,
)
from bertscope.errors import invalid_argument
from bertscope.models import Model, model_name, read_model
from bertscope.v1 import common_pb2, compression_pb2, model_pb2

CRITERIA = values(Criterion, compression_pb2.FeedForwardRemoval.Criterion, "CRITERION_")


@dataclass(frozen=True)
class CompressionProgress:
    """The progress of a compression."""

    __repr__ = short_repr

    done_steps: int
    """Number of steps done."""
    total_steps: int
    """Steps to do, loading the result included."""
    detail: str
    """The current step in words."""


def compress_model_request(
    model_id: str, steps: Step | Iterable[Step], *, model: str | Model | None, folder: str | None
) -> model_pb2.CompressModelRequest:
    """Returns the request of CompressModel."""
    asked = [steps] if type(steps) in MESSAGES else _validation.many("steps", steps, "steps such as bertscope.int8()")
    return model_pb2.CompressModelRequest(
        model=model_name("model", model),
        model_id=_validation.text("model_id", model_id).removeprefix("models/"),
        steps=[_step(f"steps[{index}]", step) for index, step in enumerate(asked)],
        folder=_validation.text("folder", folder or ""),
    )


def _step(field: str, step: object) -> compression_pb2.CompressionStep:
    if type(step) not in MESSAGES:
        raise invalid_argument(field, "must be made by bertscope.onnx, int8, keep_layers and so on (see bertscope.compression)")
    return compression_pb2.CompressionStep(**MESSAGES[type(step)](step))


def _weight_only(step: WeightOnlyQuantization) -> dict[str, Any]:
    message = compression_pb2.WeightOnlyQuantization(bits=step.bits, block_size=step.block_size or 0)
    return {"weight_only": message}


def _half(step: HalfPrecision) -> dict[str, Any]:
    return {"half": compression_pb2.HalfPrecision(precision=PRECISIONS[step.precision])}


def _heads(step: HeadRemoval) -> dict[str, Any]:
    heads = [common_pb2.LayerHeads(layer=layer, heads=numbers) for layer, numbers in sorted(step.heads.items())]
    return {"heads": compression_pb2.HeadRemoval(heads=heads, share=step.share, texts=step.texts)}


def _feed_forward(step: FeedForwardRemoval) -> dict[str, Any]:
    message = compression_pb2.FeedForwardRemoval(share=step.share, criterion=CRITERIA[step.by], texts=step.texts)
    return {"feed_forward": message}


def _vocabulary(step: VocabularyReduction) -> dict[str, Any]:
    return {"vocabulary": compression_pb2.VocabularyReduction(texts=step.texts, min_count=step.min_count)}


MESSAGES: dict[type[Any], Callable[[Any], dict[str, Any]]] = {
    OnnxExport: lambda step: {"onnx": compression_pb2.OnnxExport()},
    Int8Quantization: lambda step: {"int8": compression_pb2.Int8Quantization()},
    WeightOnlyQuantization: _weight_only,
    HalfPrecision: _half,
    LayerSelection: lambda step: {"layers": compression_pb2.LayerSelection(layers=step.layers)},
    HeadRemoval: _heads,
    FeedForwardRemoval: _feed_forward,
    MagnitudePruning: lambda step: {"magnitude": compression_pb2.MagnitudePruning(share=step.share)},
    TokenElimination: lambda step: {"tokens": compression_pb2.TokenElimination(kept_shares=step.kept_shares)},
    VocabularyReduction: _vocabulary,
}


def read_compression_event(message: model_pb2.CompressModelResponse) -> CompressionProgress | Model | None:
    """Returns the event in a message of CompressModel; None for an event that this version does not know."""
    if message.HasField("model"):
        return read_model(message.model)
    return read(CompressionProgress, message.progress) if message.HasField("progress") else None
