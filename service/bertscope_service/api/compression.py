"""Requests and replies of CompressModel: converts bertscope.v1.CompressionStep to steps, and renders their progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertscope.v1 import common_pb2, compression_pb2, model_pb2

from bertscope_service.api.checks import check_folder, check_model_id, check_numbers, parse_layer_heads
from bertscope_service.api.enums import members
from bertscope_service.api.field_checks import VOCABULARY_REDUCTION_MIN_COUNT, WEIGHT_ONLY_QUANTIZATION_BITS
from bertscope_service.checkpoints.steps import (
    Criterion,
    EliminateTokens,
    Half,
    Int8,
    KeepLayers,
    OnnxExport,
    PruneMagnitude,
    ReduceVocabulary,
    RemoveFeedForward,
    RemoveHeads,
    Step,
    StepProgress,
    Untrain,
    WeightOnly,
)
from bertscope_service.encoders.base import Shape
from bertscope_service.errors import InvalidArgument

HALF_PRECISIONS = {common_pb2.PRECISION_FLOAT16: "fp16", common_pb2.PRECISION_BFLOAT16: "bf16"}
CRITERIA = {0: Criterion.MAGNITUDE} | members(Criterion, compression_pb2.FeedForwardRemoval.Criterion, "CRITERION_")


@dataclass(frozen=True, slots=True)
class CompressQuery:
    """A CompressModel request: the id of the new model, the steps, and its folder."""

    model_id: str
    steps: tuple[Step, ...]
    folder: Path | None


@dataclass(frozen=True, slots=True)
class Where:
    """The context of a step: its field, and the shape and model that it is checked against."""

    field: str
    shape: Shape
    model: str

    def texts(self, texts: Sequence[str]) -> tuple[str, ...]:
        """Checks that there are texts. Returns them."""
        if not texts:
            field = f"{self.field}.texts"
            raise InvalidArgument(field, f"{field} is empty; give at least one text", "NO_TEXT")
        return tuple(texts)

    def no_texts(self, texts: Sequence[str], why: str) -> None:
        if texts:
            field = f"{self.field}.texts"
            raise InvalidArgument(field, f"{field} is only {why}; leave it out", "TEXTS_UNUSED")


def parse_compress(request: model_pb2.CompressModelRequest, shape: Shape, model: str) -> CompressQuery:
    """Converts the request, whose fields are checked, checking each step by itself; `shape` is that of the model named `model`.

    Raises InvalidArgument.
    """
    model_id, folder = check_model_id(request.model_id), check_folder(request.folder)
    return CompressQuery(model_id, parse_steps(request.steps, shape, model), folder)


def parse_steps(given: Sequence[compression_pb2.CompressionStep], shape: Shape, model: str) -> tuple[Step, ...]:
    """Converts the steps of a request, checking each by itself. Raises InvalidArgument."""
    steps: dict[str, Step] = {}
    for index, entry in enumerate(given):
        field, kind = f"steps[{index}]", entry.WhichOneof("step")
        if kind is None:
            raise InvalidArgument(field, f"{field} is empty; set one of {', '.join(KINDS)}", "STEP_MISSING")
        if kind in steps:
            message = f"{field} is a second step {kind}; give each kind at most once"
            raise InvalidArgument(field, message, "DUPLICATE_STEP")
        steps[kind] = KINDS[kind](getattr(entry, kind), Where(f"{field}.{kind}", shape, model))
    return tuple(steps.values())


def _weight_only(given: compression_pb2.WeightOnlyQuantization, _: Where) -> Step:
    return WeightOnly(given.bits or WEIGHT_ONLY_QUANTIZATION_BITS, given.block_size)


def _half(given: compression_pb2.HalfPrecision, where: Where) -> Step:
    return Half(HALF_PRECISIONS[given.precision])


def _layers(given: compression_pb2.LayerSelection, where: Where) -> Step:
    field = f"{where.field}.layers"
    return KeepLayers(check_numbers(given.layers, field, "layer", where.shape.layers, where.model))


def _heads(given: compression_pb2.HeadRemoval, where: Where) -> Step:
    if not given.HasField("share"):
        if not given.heads:
            message = f"{where.field} names no heads; set heads, or share and texts"
            raise InvalidArgument(f"{where.field}.heads", message, "NO_HEADS")
        where.no_texts(given.texts, "for share")
        return RemoveHeads(dict(parse_layer_heads(given.heads, f"{where.field}.heads", where.shape, where.model)))
    if given.heads:
        message = f"{where.field}.heads and share exclude each other; set one of them"
        raise InvalidArgument(f"{where.field}.share", message, "HEADS_WITH_SHARE")
    return RemoveHeads(share=given.share, texts=where.texts(given.texts))


def _feed_forward(given: compression_pb2.FeedForwardRemoval, where: Where) -> Step:
    criterion = CRITERIA[given.criterion]
    if criterion is Criterion.IMPORTANCE:
        return RemoveFeedForward(given.share, criterion, where.texts(given.texts))
    where.no_texts(given.texts, "for CRITERION_IMPORTANCE")
    return RemoveFeedForward(given.share, criterion)


def _vocabulary(given: compression_pb2.VocabularyReduction, _: Where) -> Step:
    return ReduceVocabulary(tuple(given.texts), given.min_count or VOCABULARY_REDUCTION_MIN_COUNT)


KINDS: dict[str, Callable[[Any, Where], Step]] = {
    "onnx": lambda _, __: OnnxExport(),
    "int8": lambda _, __: Int8(),
    "weight_only": _weight_only,
    "half": _half,
    "layers": _layers,
    "heads": _heads,
    "feed_forward": _feed_forward,
    "magnitude": lambda given, _: PruneMagnitude(given.share),
    "tokens": lambda given, _: EliminateTokens(tuple(given.kept_shares)),
    "vocabulary": _vocabulary,
    "untrained": lambda given, _: Untrain(given.seed),
}


def render_steps(progress: StepProgress) -> model_pb2.CompressModelResponse:
    return model_pb2.CompressModelResponse(
        progress=model_pb2.CompressionProgress(done_steps=progress.done, total_steps=progress.total, detail=progress.detail)
    )
