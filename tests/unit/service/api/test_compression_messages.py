"""CompressModel requests as steps, and what is refused for its form."""

from pathlib import Path
from typing import Any

import pytest
from bertscope.v1 import common_pb2 as common
from bertscope.v1 import compression_pb2 as compression
from bertscope.v1 import model_pb2 as model
from bertscope_service.api.compression import CompressQuery, parse_compress
from bertscope_service.api.field_checks import check_fields
from bertscope_service.api.limits import RequestLimits
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
    Untrain,
    WeightOnly,
)
from bertscope_service.encoders.base import Shape

SHAPE = Shape("bert", 4, 4, 32, 100, 64, 1000)
IMPORTANCE = compression.FeedForwardRemoval.CRITERION_IMPORTANCE


def parse(*steps: dict[str, Any], **fields: Any) -> CompressQuery:
    fields = {"model_id": "small", "steps": [compression.CompressionStep(**step) for step in steps]} | fields
    request = model.CompressModelRequest(**fields)
    check_fields(request, RequestLimits(64, 20, 1000, 1_000_000))
    return parse_compress(request, SHAPE, "models/bert")


def half(precision: int) -> dict[str, Any]:
    return {"half": compression.HalfPrecision(precision=precision)}  # type: ignore[arg-type]


def layers(*kept: int) -> dict[str, Any]:
    return {"layers": compression.LayerSelection(layers=kept)}


def heads(**fields: Any) -> dict[str, Any]:
    return {"heads": compression.HeadRemoval(**fields)}


def units(**fields: Any) -> dict[str, Any]:
    return {"feed_forward": compression.FeedForwardRemoval(**fields)}


def entry(layer: int, *numbers: int) -> common.LayerHeads:
    return common.LayerHeads(layer=layer, heads=numbers)


ONNX = {"onnx": compression.OnnxExport()}
GOOD: list[tuple[dict[str, Any], Step]] = [
    (ONNX, OnnxExport()),
    ({"int8": compression.Int8Quantization()}, Int8()),
    ({"weight_only": compression.WeightOnlyQuantization()}, WeightOnly(4, 0)),
    ({"weight_only": compression.WeightOnlyQuantization(bits=3, block_size=64)}, WeightOnly(3, 64)),
    (half(common.PRECISION_FLOAT16), Half("fp16")),
    (half(common.PRECISION_BFLOAT16), Half("bf16")),
    (layers(0, 3), KeepLayers((0, 3))),
    (heads(heads=[entry(2, 1, 0), entry(1)]), RemoveHeads({1: (0, 1, 2, 3), 2: (0, 1)})),
    (heads(share=0.5, texts=["a", "b"]), RemoveHeads(share=0.5, texts=("a", "b"))),
    (units(share=0.5), RemoveFeedForward(0.5)),
    (units(share=0.5, criterion=IMPORTANCE, texts=["a"]), RemoveFeedForward(0.5, Criterion.IMPORTANCE, ("a",))),
    ({"magnitude": compression.MagnitudePruning(share=0.25)}, PruneMagnitude(0.25)),
    ({"untrained": compression.RandomWeights(seed=7)}, Untrain(7)),
    ({"tokens": compression.TokenElimination(kept_shares=[1, 0.5])}, EliminateTokens((1.0, 0.5))),
    ({"vocabulary": compression.VocabularyReduction(texts=["a"])}, ReduceVocabulary(("a",))),
    ({"vocabulary": compression.VocabularyReduction(texts=["a"] * 65, min_count=3)}, ReduceVocabulary(("a",) * 65, 3)),
]


@pytest.mark.parametrize(("written", "step"), GOOD, ids=lambda it: it.name if hasattr(it, "name") else "")
def test_each_step(written: dict[str, Any], step: Step) -> None:
    assert parse(written) == CompressQuery("small", (step,), None)


def test_steps_keep_their_order() -> None:
    found = parse(ONNX, layers(1), heads(heads=[entry(0, 1)]), folder="/models/small")
    assert found == CompressQuery("small", (OnnxExport(), KeepLayers((1,)), RemoveHeads({0: (1,)})), Path("/models/small"))
