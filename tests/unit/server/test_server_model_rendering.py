"""What a ready model shows of its head and of the heads that it lacks."""

from types import SimpleNamespace
from typing import Any

import pytest
from bertscope.v1 import model_pb2 as model
from bertscope_service.encoders.base import Shape
from bertscope_service.entry import Entry, ModelState
from bertscope_service.loaded import LoadSpec
from bertscope_service.messages.model import render_model


def shown(**shape: Any) -> model.Model:
    encoder = SimpleNamespace(
        shape=Shape("bert", 3, 2, 8, 100, 16, 1000, **{"has_masked_lm_head": False} | shape),
        runtime="torch",
        device="cpu",
        precision="fp32",
    )
    tokenizer = SimpleNamespace(max_tokens=14, mask_token="[MASK]", mask_id=4)
    entry = Entry(LoadSpec("a", "s", "cpu", "fp32"), ModelState.READY)
    loaded: Any = SimpleNamespace(encoder=encoder, tokenizer=tokenizer, weight_bytes=4000, weights_digest="sha256:0", steps=())
    entry.loaded = loaded
    return render_model(entry)


@pytest.mark.parametrize(
    ("shape", "capabilities"),
    [
        ({}, ["ATTENTION", "INTERVENTIONS"]),
        ({"has_masked_lm_head": True}, ["ATTENTION", "CLOZE", "INTERVENTIONS"]),
        ({"labels": ("a", "b")}, ["ATTENTION", "INTERVENTIONS", "CLASSIFICATION"]),
        ({"differentiable": True, "prunable": True}, ["ATTENTION", "INTERVENTIONS", "RANKING", "PRUNING"]),
        ({"differentiable": True}, ["ATTENTION", "INTERVENTIONS", "RANKING"]),
    ],
)
def test_capabilities(shape: dict[str, Any], capabilities: list[str]) -> None:
    assert [model.Capability.Name(one) for one in shown(**shape).capabilities] == [
        f"CAPABILITY_{name}" for name in capabilities
    ]


def test_labels_are_shown_in_order() -> None:
    assert list(shown(labels=("b", "a", "c")).labels) == ["b", "a", "c"]
    assert not shown().labels


def test_pruned_heads_are_shown_by_layer() -> None:
    found = shown(pruned={2: (0, 1), 0: (1,)})
    assert [(one.layer, list(one.heads)) for one in found.pruned_heads] == [(0, [1]), (2, [0, 1])]
    assert (found.layers, found.heads) == (3, 2)
