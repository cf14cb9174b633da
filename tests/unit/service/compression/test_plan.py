"""What is found before any work is done: steps that don't go together, and steps that a model can't take."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from bertscope_service.checkpoints.steps import (
    Criterion,
    EliminateTokens,
    Half,
    Int8,
    KeepLayers,
    OnnxExport,
    PruneMagnitude,
    RemoveFeedForward,
    RemoveHeads,
    Step,
    WeightOnly,
)
from bertscope_service.compression.compress import in_order
from bertscope_service.compression.heads import least_important
from bertscope_service.compression.plan import Subject, plan, with_heads
from bertscope_service.encoders.base import Capabilities, Shape
from bertscope_service.errors import InvalidArgument, Unsupported

SHAPE = Shape("bert", 4, 4, 32, 100, 64, 1000)
CAPABILITIES = Capabilities(masked_lm=True, prunable=True, differentiable=True)
BERT = Subject("models/bert", SHAPE, CAPABILITIES, "cpu", has_mask=True)
TEXTS = ("a text",)
NAN = float("nan")


def changed(architecture: str = "bert", **capabilities: bool) -> Subject:
    return replace(BERT, shape=replace(SHAPE, architecture=architecture), capabilities=replace(CAPABILITIES, **capabilities))


INVALID: dict[str, tuple[tuple[Step, ...], str, str]] = {
    "two quantised": ((OnnxExport(), Int8(), WeightOnly(4, 0)), "steps[2]", "FORMATS_EXCLUDE_EACH_OTHER"),
    "layers descending": ((KeepLayers((0, 2, 1)),), "steps[0].layers.layers[2]", "LAYERS_NOT_ASCENDING"),
    "layer twice": ((KeepLayers((1, 1)),), "steps[0].layers.layers[1]", "LAYERS_NOT_ASCENDING"),
    "heads of an unknown layer": ((RemoveHeads({0: (1,), 4: (1,)}),), "steps[0].heads.heads[1].layer", "LAYER_OUT_OF_RANGE"),
    "all heads": ((RemoveHeads(share=1.0, texts=TEXTS),), "steps[0].heads.share", "SHARE_OUT_OF_RANGE"),
    "no units": ((RemoveFeedForward(0.0),), "steps[0].feed_forward.share", "SHARE_OUT_OF_RANGE"),
    "all units": ((RemoveFeedForward(1.0),), "steps[0].feed_forward.share", "SHARE_OUT_OF_RANGE"),
    "no weights": ((PruneMagnitude(-0.1),), "steps[0].magnitude.share", "SHARE_OUT_OF_RANGE"),
    "no number": ((PruneMagnitude(NAN),), "steps[0].magnitude.share", "SHARE_OUT_OF_RANGE"),
    "too few shares": ((EliminateTokens((1.0, 0.5, 0.5)),), "steps[0].tokens.kept_shares", "KEPT_SHARES_MISCOUNTED"),
    "shares of removed layers": (
        (KeepLayers((0, 1)), EliminateTokens((1.0, 1.0, 0.5, 0.5))),
        "steps[1].tokens.kept_shares",
        "KEPT_SHARES_MISCOUNTED",
    ),
    "shares that increase": (
        (EliminateTokens((0.5, 0.4, 0.45, 0.1)),),
        "steps[0].tokens.kept_shares[2]",
        "KEPT_SHARES_INCREASE",
    ),
    "a share of nothing": ((EliminateTokens((0.5, 0.4, 0.3, 0.0)),), "steps[0].tokens.kept_shares[3]", "SHARE_OUT_OF_RANGE"),
    "more than all tokens": ((EliminateTokens((1.1, 1.0, 1.0, 1.0)),), "steps[0].tokens.kept_shares[0]", "SHARE_OUT_OF_RANGE"),
    "one bit": ((WeightOnly(1, 0),), "steps[0].weight_only.bits", "BITS_OUT_OF_RANGE"),
    "nine bits": ((WeightOnly(9, 0),), "steps[0].weight_only.bits", "BITS_OUT_OF_RANGE"),
    "three bits in ONNX": ((OnnxExport(), WeightOnly(3, 0)), "steps[1].weight_only.bits", "BITS_OUT_OF_RANGE"),
    "blocks without ONNX": ((WeightOnly(4, 32),), "steps[0].weight_only.block_size", "BLOCK_SIZE_UNUSED"),
    "odd blocks": ((WeightOnly(4, 24), OnnxExport()), "steps[0].weight_only.block_size", "BLOCK_SIZE_OUT_OF_RANGE"),
}


@pytest.mark.parametrize(("steps", "field", "reason"), INVALID.values(), ids=INVALID)
def test_steps_that_can_not_be_done(steps: tuple[Step, ...], field: str, reason: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        plan(steps, BERT)
    assert (caught.value.field, caught.value.reason) == (field, reason)
    assert "\n" not in caught.value.message


UNSUPPORTED: dict[str, tuple[tuple[Step, ...], Subject, str]] = {
    "heads of ALBERT": ((RemoveHeads({0: (1,)}),), changed(architecture="albert", prunable=False), "PRUNING_UNSUPPORTED"),
    "layers of ALBERT": ((KeepLayers((0,)),), changed(architecture="albert", prunable=False), "LAYERS_UNSUPPORTED"),
    "ModernBERT's first layer": ((KeepLayers((1, 2)),), changed(architecture="modernbert"), "FIRST_LAYER_NEEDED"),
    "after int8": ((PruneMagnitude(0.5),), replace(BERT, steps=("layers", "int8")), "ALREADY_COMPRESSED"),
    "after weight_only": ((OnnxExport(),), replace(BERT, steps=("weight_only",)), "ALREADY_COMPRESSED"),
    "after onnx": ((Int8(),), replace(BERT, steps=("onnx",), checkpoint=False), "ALREADY_COMPRESSED"),
    "a foreign graph": ((Half("bf16"),), replace(BERT, checkpoint=False), "ALREADY_COMPRESSED"),
    "half in ONNX": ((OnnxExport(), Half("fp16")), BERT, "HALF_ONNX_UNSUPPORTED"),
    "tokens in ONNX": ((EliminateTokens((1.0,) * 4), OnnxExport()), BERT, "TOKENS_ONNX_UNSUPPORTED"),
    "graphs after tokens": (
        (OnnxExport(),),
        replace(changed(observable=False, prunable=False), steps=("tokens",)),
        "TOKENS_ONNX_UNSUPPORTED",
    ),
    "labels of some tokens": (
        (EliminateTokens((1.0,) * 4),),
        changed(masked_lm=False, token_classification=True),
        "TOKENS_UNSUPPORTED",
    ),
    "answers from some tokens": (
        (EliminateTokens((1.0,) * 4),),
        changed(masked_lm=False, question_answering=True),
        "TOKENS_UNSUPPORTED",
    ),
    "heads after tokens": ((RemoveHeads({0: (1,)}),), changed(observable=False, prunable=False), "PRUNING_UNSUPPORTED"),
    "no mask to rank by": ((RemoveHeads(share=0.5, texts=TEXTS),), replace(BERT, has_mask=False), "NO_MASK_TOKEN"),
    "no gradients": ((RemoveHeads(share=0.5, texts=TEXTS),), changed(differentiable=False), "NO_GRADIENTS"),
    "no head for importance": (
        (RemoveFeedForward(0.5, Criterion.IMPORTANCE, TEXTS),),
        changed(masked_lm=False),
        "NO_MASKED_LM_HEAD",
    ),
}


@pytest.mark.parametrize(("steps", "subject", "reason"), UNSUPPORTED.values(), ids=UNSUPPORTED)
def test_what_a_model_can_not_take(steps: tuple[Step, ...], subject: Subject, reason: str) -> None:
    with pytest.raises(Unsupported) as caught:
        plan(steps, subject)
    assert caught.value.reason == reason
    assert ";" in caught.value.message or ":" in caught.value.message  # says what to do


@pytest.mark.parametrize(
    ("steps", "runtime", "precision"),
    [
        ((KeepLayers((0, 3)), RemoveHeads({1: (2,)}), RemoveFeedForward(0.5)), None, None),
        ((KeepLayers((0, 3)), RemoveHeads({1: (2,)}), EliminateTokens((1.0, 0.5))), "torch", None),
        ((EliminateTokens((1.0, 0.9, 0.8, 0.8)), KeepLayers((0, 3))), "torch", None),
        ((Half("bf16"), RemoveFeedForward(0.5)), "torch", "bf16"),
        ((Int8(), PruneMagnitude(0.5)), "torch", "fp32"),
        ((WeightOnly(3, 0),), "torch", "fp32"),
        ((RemoveHeads({1: (2,)}), Int8()), "torch", "fp32"),
        ((OnnxExport(), Int8()), "onnx", "fp32"),
        ((OnnxExport(),), "onnx", None),
    ],
)
def test_what_a_model_can_take(steps: tuple[Step, ...], runtime: str | None, precision: str | None) -> None:
    found = plan(steps, BERT)
    assert found.steps == steps
    assert (found.runtime, found.precision) == (runtime, precision)


@pytest.mark.parametrize(
    ("steps", "own", "precision"),
    [
        ((OnnxExport(),), "bf16", "fp32"),
        ((OnnxExport(),), "tf32", "tf32"),
        ((OnnxExport(), WeightOnly(4, 0)), "tf32", "fp32"),
        ((PruneMagnitude(0.5),), "bf16", "bf16"),
        ((Half("fp16"),), "bf16", "fp16"),
    ],
)
def test_the_precision_of_the_result_is_the_originals_where_its_library_has_it(
    steps: tuple[Step, ...], own: str, precision: str
) -> None:
    assert plan(steps, BERT).precision_after(own) == precision


def test_int8_graphs_are_refused_on_a_gpu_before_they_are_made() -> None:
    on_gpu = replace(BERT, device="cuda:0")
    assert plan((Int8(),), on_gpu).runtime == "torch"
    with pytest.raises(Unsupported, match=r"on a CPU, not on cuda:0, .* use half on a GPU \(fp16 or bf16\)") as refused:
        plan((OnnxExport(), Int8()), on_gpu)
    assert refused.value.reason == "PRECISION_UNSUPPORTED"


def test_defaults_are_spelled_out() -> None:
    assert plan((OnnxExport(), WeightOnly(4, 0)), BERT).steps == (OnnxExport(), WeightOnly(4, 32))
    assert plan((WeightOnly(4, 0),), BERT).steps == (WeightOnly(4, 0),)


def test_formats_and_export_come_last() -> None:
    """Whatever their place in the request; all others keep theirs."""
    steps: tuple[Step, ...] = (OnnxExport(), Int8(), RemoveFeedForward(0.5), KeepLayers((0,)), PruneMagnitude(0.5))
    assert [step.name for step in in_order(steps)] == ["feed_forward", "layers", "magnitude", "onnx", "int8"]
    assert [step.name for step in in_order((Half("fp16"), KeepLayers((0,))))] == ["layers", "half"]


IMPORTANCE = np.array([[4, 1, 9, 8], [7, 7, 7, 7], [6, 2, 2, 5], [3, 9, 9, 9]], dtype=np.float64)


@pytest.mark.parametrize(
    ("gone", "share", "expected"),
    [
        ({}, 0.25, {0: (1,), 2: (1, 2), 3: (0,)}),
        ({}, 0.1, {0: (1,)}),
        ({}, 0.001, {0: (1,)}),
        ({0: (1,), 2: (2,)}, 0.25, {0: (0,), 2: (1,), 3: (0,)}),
        ({0: (0, 1, 2, 3), 1: (0, 1, 2, 3), 2: (0, 1, 3), 3: (1, 2, 3)}, 0.99, {2: (2,)}),
    ],
)
def test_a_share_is_of_the_heads_that_are_there(gone: Any, share: float, expected: Any) -> None:
    assert least_important(IMPORTANCE, gone, share) == expected


def test_never_all_heads() -> None:
    assert sum(map(len, least_important(IMPORTANCE, {}, 0.9999).values())) == 15


def test_ten_heads_and_a_share_that_is_no_binary_fraction() -> None:
    assert least_important(np.arange(10.0).reshape(1, 10), {}, 0.3) == {0: (0, 1, 2)}


def test_heads_that_were_removed_before_follow_their_layers() -> None:
    subject = replace(BERT, shape=replace(SHAPE, pruned={2: (1, 2)}))
    (_, found) = with_heads((KeepLayers((2, 3)), RemoveHeads(share=0.4, texts=TEXTS)), IMPORTANCE, subject)
    assert found == RemoveHeads({0: (3,), 1: (0,)})
