"""What a ready model shows of its head and of the heads that it lacks."""

from types import SimpleNamespace
from typing import Any

import pytest
from bertscope.v1 import model_pb2 as model
from bertscope_service.api.model_rendering import render_model
from bertscope_service.encoders.base import Capabilities, Shape
from bertscope_service.models.hosted import HostedModel, ModelState
from bertscope_service.models.loaded import LoadSpec


def shown(capabilities: Capabilities) -> model.Model:
    encoder = SimpleNamespace(
        shape=Shape("bert", 3, 2, 8, 100, 16, 1000), capabilities=capabilities, runtime="torch", device="cpu", precision="fp32"
    )
    tokenizer = SimpleNamespace(max_tokens=14, mask_token="[MASK]", mask_id=4)
    entry = HostedModel(LoadSpec("a", "s", "cpu", "fp32"), ModelState.READY)
    loaded: Any = SimpleNamespace(
        encoder=encoder, tokenizer=tokenizer, weight_bytes=4000, weights_digest="sha256:0", steps=(), choice=None, source=None
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
    found = shown(Capabilities(**{"hidden_states": False, **has}))
    assert [model.Capability.Name(one) for one in found.capabilities] == [f"CAPABILITY_{name}" for name in capabilities]
