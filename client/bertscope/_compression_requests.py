"""Builds the requests of ModelService.CompressModel. Pure, as `_requests`, and raises InvalidArgument likewise."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from bertscope import _encoding, _requests
from bertscope.compression import (
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
from bertscope.results import Model
from bertscope.v1 import common_pb2, compression_pb2, model_pb2

CRITERIA = {
    "magnitude": compression_pb2.FeedForwardRemoval.CRITERION_MAGNITUDE,
    "importance": compression_pb2.FeedForwardRemoval.CRITERION_IMPORTANCE,
}


def compress_model(
    model_id: str, steps: Step | Iterable[Step], *, model: str | Model | None, folder: str | None
) -> model_pb2.CompressModelRequest:
    """Request of CompressModel."""
    asked = [steps] if type(steps) in MESSAGES else _encoding.many("steps", steps, "steps such as bertscope.int8()")
    return model_pb2.CompressModelRequest(
        model=_requests.model_name("model", model),
        model_id=_encoding.text("model_id", model_id).removeprefix("models/"),
        steps=[_step(f"steps[{index}]", step) for index, step in enumerate(asked)],
        folder=_encoding.text("folder", folder or ""),
    )


def _step(field: str, step: object) -> compression_pb2.CompressionStep:
    if type(step) not in MESSAGES:
        raise invalid_argument(field, "must be made by bertscope.onnx, int8, keep_layers and so on (see bertscope.compression)")
    return compression_pb2.CompressionStep(**MESSAGES[type(step)](step))


def _weight_only(step: WeightOnlyQuantization) -> dict[str, Any]:
    message = compression_pb2.WeightOnlyQuantization(bits=step.bits, block_size=step.block_size or 0)
    return {"weight_only": message}


def _half(step: HalfPrecision) -> dict[str, Any]:
    return {"half": compression_pb2.HalfPrecision(precision=_requests.PRECISIONS[step.precision])}


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
