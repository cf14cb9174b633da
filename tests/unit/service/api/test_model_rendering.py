"""What a ready model shows of its head and of the heads that it lacks."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from bertscope.v1 import common_pb2 as common
from bertscope.v1 import model_pb2 as model
from bertscope_service.api.model_rendering import render_model
from bertscope_service.encoders.base import Capabilities, Shape
from bertscope_service.models.hosted import HostedModel, ModelState
from bertscope_service.models.loaded import LoadSpec
from bertscope_service.models.runtime_choice import RuntimeChoice, RuntimeTimes, only

NO_HEAD = Capabilities()


def shown(*, choice: RuntimeChoice | None = None, capabilities: Capabilities = NO_HEAD, **shape: Any) -> model.Model:
    encoder = SimpleNamespace(
        shape=Shape("bert", 3, 2, 8, 100, 16, 1000, **shape),
        capabilities=capabilities,
        runtime="torch",
        device="cpu",
        precision="fp32",
    )
    tokenizer = SimpleNamespace(max_tokens=14, mask_token="[MASK]", mask_id=4)
    entry = HostedModel(LoadSpec("a", "s", "cpu", "fp32"), ModelState.READY)
    loaded: Any = SimpleNamespace(
        encoder=encoder, tokenizer=tokenizer, weight_bytes=4000, weights_digest="sha256:0", steps=(), choice=choice, source=None
    )
    entry.loaded = loaded
    return render_model(entry)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("has", "capabilities"),
    [
        ({}, ["ATTENTION", "INTERVENTIONS"]),
        ({"observable": False}, []),
        ({"next_sentence": True}, ["ATTENTION", "INTERVENTIONS", "NEXT_SENTENCE"]),
        ({"masked_lm": True}, ["ATTENTION", "CLOZE", "INTERVENTIONS"]),
        ({"classification": True}, ["ATTENTION", "INTERVENTIONS", "CLASSIFICATION"]),
        ({"multi_label": True}, ["ATTENTION", "INTERVENTIONS", "MULTI_LABEL"]),
        ({"regression": True}, ["ATTENTION", "INTERVENTIONS", "REGRESSION"]),
        ({"token_classification": True}, ["ATTENTION", "INTERVENTIONS", "TOKEN_CLASSIFICATION"]),
        ({"differentiable": True, "prunable": True}, ["ATTENTION", "INTERVENTIONS", "RANKING", "PRUNING"]),
        ({"differentiable": True}, ["ATTENTION", "INTERVENTIONS", "RANKING"]),
        ({"hidden_states": True}, ["ATTENTION", "INTERVENTIONS", "HIDDEN_STATES"]),
        ({"hidden_states": True, "drops_tokens": True}, ["ATTENTION", "INTERVENTIONS"]),
        ({"question_answering": True}, ["ATTENTION", "INTERVENTIONS", "QUESTION_ANSWERING"]),
        ({"question_answering": True, "drops_tokens": True}, ["ATTENTION", "INTERVENTIONS"]),
    ],
)
def test_capabilities(has: dict[str, bool], capabilities: list[str]) -> None:
    found = shown(capabilities=Capabilities(**{"hidden_states": False, **has}))
    assert [model.Capability.Name(one) for one in found.capabilities] == [f"CAPABILITY_{name}" for name in capabilities]


def test_the_choice_of_a_runtime_is_shown_with_what_was_measured() -> None:
    times = (RuntimeTimes("torch", 0.02, 0.1), RuntimeTimes("onnx", 0.01, 0.09))
    choice = RuntimeChoice("onnx", "onnx", 1.1, times, 0.7, 0.6, 0.9, 8, 1_700_000_000.5, remembered=True)
    found = shown(choice=choice).runtime_choice
    assert [(one.runtime, one.text_seconds, one.batch_seconds) for one in found.times] == [
        (common.RUNTIME_TORCH, 0.02, 0.1),
        (common.RUNTIME_ONNX, 0.01, 0.09),
    ]
    assert (found.preferred, found.threshold, found.rounds) == (common.RUNTIME_ONNX, 1.1, 8)
    assert (found.speedup, found.low, found.high) == (0.7, 0.6, 0.9)
    assert found.measured_time.ToMilliseconds() == 1_700_000_000_500
    assert found.remembered
    assert not shown().HasField("runtime_choice")


def test_a_model_that_one_library_can_run_says_why() -> None:
    found = shown(choice=only("torch", torch.device("cpu"), "it drops tokens")).runtime_choice
    assert (found.reason, found.preferred) == ("it drops tokens", common.RUNTIME_ONNX)
    assert not found.times and not found.HasField("measured_time") and not found.remembered
