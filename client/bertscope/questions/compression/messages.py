"""Builds the request of CompressModel and reads its events."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

from bertscope.errors import invalid_argument
from bertscope.questions.compression.steps import (
    Criterion,
    FeedForwardRemoval,
    HalfPrecision,
    HeadRemoval,
    Int8Quantization,
    LayerSelection,
    MagnitudePruning,
    OnnxExport,
    RandomWeights,
    Step,
    TokenElimination,
    VocabularyReduction,
    WeightOnlyQuantization,
)
from bertscope.v1 import common_pb2, compression_pb2, model_pb2
from bertscope.values import validation
from bertscope.values.display import record
from bertscope.values.messages import PRECISIONS, read, values
from bertscope.values.models import Model, model_name, read_model

__all__ = ["CompressionProgress"]

CRITERIA = values(Criterion, compression_pb2.FeedForwardRemoval.Criterion, "CRITERION_")


@record
class CompressionProgress:
    """The progress of a compression."""

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
    asked = [steps] if type(steps) in MESSAGES else validation.many("steps", steps, "steps such as bertscope.int8()")
    return model_pb2.CompressModelRequest(
        model=model_name("model", model),
        model_id=validation.text("model_id", model_id).removeprefix("models/"),
        steps=[_step(f"steps[{index}]", step) for index, step in enumerate(asked)],
        folder=validation.text("folder", folder or ""),
    )


def _step(field: str, step: object) -> compression_pb2.CompressionStep:
    if type(step) not in MESSAGES:
        raise invalid_argument(
            field, "must be made by bertscope.onnx, int8, keep_layers and so on (see bertscope.questions.compression)"
        )
    name, convert = MESSAGES[type(step)]
    return compression_pb2.CompressionStep(**{name: convert(step)})


def _heads(step: HeadRemoval) -> compression_pb2.HeadRemoval:
    heads = [common_pb2.LayerHeads(layer=layer, heads=numbers) for layer, numbers in sorted(step.heads.items())]
    return compression_pb2.HeadRemoval(heads=heads, share=step.share, texts=step.texts)


def _feed_forward(step: FeedForwardRemoval) -> compression_pb2.FeedForwardRemoval:
    return compression_pb2.FeedForwardRemoval(share=step.share, criterion=CRITERIA[step.by], texts=step.texts)


MESSAGES: dict[type[Any], tuple[str, Callable[[Any], Any]]] = {
    OnnxExport: ("onnx", lambda step: compression_pb2.OnnxExport()),
    Int8Quantization: ("int8", lambda step: compression_pb2.Int8Quantization()),
    WeightOnlyQuantization: ("weight_only", lambda step: compression_pb2.WeightOnlyQuantization(**asdict(step))),
    HalfPrecision: ("half", lambda step: compression_pb2.HalfPrecision(precision=PRECISIONS[step.precision])),
    LayerSelection: ("layers", lambda step: compression_pb2.LayerSelection(layers=step.layers)),
    HeadRemoval: ("heads", _heads),
    FeedForwardRemoval: ("feed_forward", _feed_forward),
    MagnitudePruning: ("magnitude", lambda step: compression_pb2.MagnitudePruning(share=step.share)),
    TokenElimination: ("tokens", lambda step: compression_pb2.TokenElimination(kept_shares=step.kept_shares)),
    RandomWeights: ("untrained", lambda step: compression_pb2.RandomWeights(seed=step.seed)),
    VocabularyReduction: ("vocabulary", lambda step: compression_pb2.VocabularyReduction(**asdict(step))),
}
"""The step's name in the contract, and what makes its message."""


def read_compression_event(message: model_pb2.CompressModelResponse) -> CompressionProgress | Model | None:
    """Returns the event in a message of CompressModel; None for an event that this version does not know."""
    if message.HasField("model"):
        return read_model(message.model)
    return read(CompressionProgress, message.progress) if message.HasField("progress") else None
