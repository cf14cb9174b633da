"""Quantities beyond weights, against their definitions in float64: every architecture, alone and in padded batches."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from bertscope_service.analyses import attention
from bertscope_service.analyses.attention import AttentionObserver, AttentionPlan, AttentionQuery, AttentionStep, TextPlan
from bertscope_service.analyses.observers.quantities import Quantity, refusal, run_quantity
from bertscope_service.encoders.base import Encoder, Gates
from bertscope_service.encoders.onnx.encoder import OnnxEncoder
from bertscope_service.encoders.state import State
from numpy.typing import NDArray

from tests.support.exports import load_exported
from tests.support.quantities import Definitions
from tests.support.reference import EDITS, Edits, Subject
from tests.support.subjects import on_three
from tests.support.tiny import SENTENCES

INPUTS: tuple[tuple[str, str | None], ...] = (
    (SENTENCES[0], None),
    ("The unplayable café.", None),
    ("The unplayable song was recorded.", SENTENCES[1]),
)
NONE: Edits = {}
CLOSE = 1e-5
BEYOND = [quantity for quantity in Quantity if quantity is not Quantity.WEIGHTS]
FROM_MAPS = [quantity for quantity in BEYOND if quantity.rolls_out]


@pytest.fixture(scope="module")
def definitions(subject: Subject) -> Definitions:
    return Definitions(subject)


@pytest.fixture(scope="module")
def onnx(subject: Subject, export_cache: Path) -> OnnxEncoder:
    return load_exported(subject.folder, export_cache)


def plans_of(subject: Subject, quantity: Quantity, *, words: bool = False) -> list[TextPlan]:
    shape = subject.encoder.shape
    heads = tuple(range(shape.heads)) if quantity.by_head else (0,)
    query = AttentionQuery(INPUTS, tuple(range(shape.layers)), heads, 4, words, truncate=False, quantity=quantity)
    return AttentionPlan(query, subject.tokenizer).texts


def len_of(plan: TextPlan) -> int:
    return len(plan.sequence)


@torch.inference_mode()
def extract(encoder: Encoder, plans: list[TextPlan], gates: Gates | None = None) -> list[NDArray[np.float32]]:
    """The maps of plans of equally many steps, in one batch if they may share one."""
    if len({plan.steps[0].group for plan in plans}) > 1:
        return [found for plan in plans for found in extract(encoder, [plan], gates)]
    states: list[State | None] = [None] * len(plans)
    products: list[torch.Tensor | None] = [None] * len(plans)
    maps: list[list[NDArray[np.float32]]] = [[] for _ in plans]
    for number in range(len(plans[0].steps)):
        observers = [plan.steps[number].after(product) for plan, product in zip(plans, products, strict=True)]
        kept = [state for state in states if state is not None]
        state = State.stack(kept) if kept else encoder.begin([plan.sequence for plan in plans])
        readout = AttentionObserver.run(encoder, state, encoder.place_gates([gates] * len(plans)), observers)
        steps: list[AttentionStep] = readout.deal(tuple(tensor.numpy() for tensor in readout.tensors))
        for gathered, step in zip(maps, steps, strict=True):
            gathered.append(np.asarray(step.maps, dtype=np.float32))
        states, products = [step.state for step in steps], [step.product for step in steps]
    return [np.concatenate(gathered) for gathered in maps]


def expected(definitions: Definitions, quantity: Quantity, plan: TextPlan, edits: Edits = NONE) -> NDArray[np.float64]:
    if quantity.rolls_out:
        return definitions.rollout(plan.sequence, edits, residual=quantity is Quantity.ROLLOUT)
    define: Callable[..., NDArray[np.float64]] = getattr(definitions, quantity.value)
    return define(plan.sequence, edits)


def assert_quantity(found: NDArray[np.float32], wanted: NDArray[np.float64], quantity: Quantity, close: float = CLOSE) -> None:
    """To 1e-5; norms to 1e-5 of the largest one, as they have no bound."""
    scale = 1.0 if "norms" not in quantity.value else max(1.0, float(wanted.max()))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=close * scale)


@pytest.mark.parametrize("quantity", BEYOND, ids=lambda quantity: quantity.value)
def test_quantities_are_what_they_are_defined_as(subject: Subject, definitions: Definitions, quantity: Quantity) -> None:
    if refusal(quantity, subject.encoder) is not None:
        assert (subject.architecture, quantity) in [
            ("mobilebert", Quantity.LAYER_OUTPUT_NORMS),
            ("modernbert", Quantity.LAYER_OUTPUT_NORMS),
        ]
        return
    # MobileBERT normalises nothing, so that rounding to float32 grows from layer to layer.
    close = 3e-5 if subject.architecture == "mobilebert" else CLOSE
    plans = plans_of(subject, quantity)
    together = extract(subject.encoder, plans)
    for plan, found in zip(plans, together, strict=True):
        assert found.shape == plan.shape
        assert_quantity(found, expected(definitions, quantity, plan), quantity, close)
        (alone,) = extract(subject.encoder, [plan])
        assert_quantity(alone, found.astype(np.float64), quantity)


@on_three
@pytest.mark.parametrize("kind", ["mixed", "negative", "zero-layer", "uniform-layer"])
@pytest.mark.parametrize("quantity", BEYOND, ids=lambda quantity: quantity.value)
def test_quantities_under_interventions(subject: Subject, definitions: Definitions, quantity: Quantity, kind: str) -> None:
    """The gated contribution keep * A + uniform / L counts; rollouts are of the maps themselves."""
    if refusal(quantity, subject.encoder) is not None:
        return
    plans, edits = plans_of(subject, quantity), EDITS[kind]
    for plan, found in zip(plans, extract(subject.encoder, plans, subject.gates(edits)), strict=True):
        assert_quantity(found, expected(definitions, quantity, plan, edits), quantity)


@on_three
@torch.inference_mode()
def test_mean_ablation_belongs_to_no_token(subject: Subject) -> None:
    """The constant takes part in the deviation and in what the output is, but not in a token's contribution."""
    shape = subject.encoder.shape
    gates = subject.gates({(1, 2): (0.0, 0.0)})
    size = subject.encoder.architecture.head_size
    constant = np.zeros((shape.heads, size), dtype=np.float32)
    constant[2] = np.linspace(-1, 1, size)
    ablated = replace(gates, constant={1: constant})
    plans = plans_of(subject, Quantity.NORMS)
    for zeroed, meant in zip(extract(subject.encoder, plans, gates), extract(subject.encoder, plans, ablated), strict=True):
        np.testing.assert_allclose(meant[:2], zeroed[:2], rtol=0, atol=CLOSE)
        assert not meant[1, 2].any()
        assert np.abs(meant[2] - zeroed[2]).max() > 1e-3


@torch.inference_mode()
def test_contributions_add_up_to_the_output_of_attention(subject: Subject, definitions: Definitions) -> None:
    """||sum_j sum_h A f(x_j) + b_O|| both ways, and so the vectors whose norms are given are the model's."""
    for plan in plans_of(subject, Quantity.NORMS)[:2]:
        for layer, one in enumerate(definitions.capture(plan.sequence, NONE)):
            bias = getattr(definitions.modules[layer].get_submodule(definitions.dense), "bias", None)
            summed = definitions.contributions(one, layer).sum((0, 2)) + (0 if bias is None else bias)
            torch.testing.assert_close(summed.norm(dim=-1), one.projected.norm(dim=-1), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("quantity", [*FROM_MAPS, Quantity.VALUE_ZEROING], ids=lambda quantity: quantity.value)
@pytest.mark.parametrize("words", [False, True])
def test_rows_sum_to_1(subject: Subject, quantity: Quantity, words: bool) -> None:
    for found in extract(subject.encoder, plans_of(subject, quantity, words=words)):
        np.testing.assert_allclose(found.sum(axis=-1), 1, rtol=0, atol=CLOSE)
        assert found.min() >= 0


@on_three
@pytest.mark.parametrize("quantity", list(Quantity), ids=lambda quantity: quantity.value)
def test_many_steps_give_the_same_numbers(subject: Subject, monkeypatch: pytest.MonkeyPatch, quantity: Quantity) -> None:
    if refusal(quantity, subject.encoder) is not None:
        return
    whole = extract(subject.encoder, plans_of(subject, quantity))
    monkeypatch.setattr(attention, "STEP_BYTES", 1)
    monkeypatch.setattr(attention, "ZEROING_TOKENS", 40)
    plans = plans_of(subject, quantity)
    layers = subject.encoder.shape.layers
    if quantity is Quantity.VALUE_ZEROING:
        assert [len(plan.steps) for plan in plans] == [
            layers * -(-length // max(1, 40 // length)) for length in map(len_of, plans)
        ]
    else:
        assert {len(plan.steps) for plan in plans} == {layers}
    for found, once in zip(extract(subject.encoder, plans), whole, strict=True):
        assert_quantity(found, once.astype(np.float64), quantity)


@on_three
@torch.inference_mode()
def test_a_rollout_needs_the_layers_below(subject: Subject) -> None:
    """The last layer alone is the last layer of all."""
    (plan, *_) = plans_of(subject, Quantity.ROLLOUT)
    (whole,) = extract(subject.encoder, [plan])
    last = subject.encoder.shape.layers - 1
    seen: list[torch.Tensor] = []
    state = subject.encoder.begin([plan.sequence])
    run_quantity(Quantity.ROLLOUT, subject.encoder, state, last + 1, None, {last}, lambda _, maps: seen.append(maps.clone()))
    (only,) = seen
    np.testing.assert_allclose(only[0].numpy(), whole[last], rtol=0, atol=1e-6)


@on_three
@pytest.mark.parametrize("quantity", BEYOND, ids=lambda quantity: quantity.value)
def test_graphs_give_the_same(subject: Subject, definitions: Definitions, onnx: OnnxEncoder, quantity: Quantity) -> None:
    assert (refusal(quantity, onnx) is None) == (refusal(quantity, subject.encoder) is None)
    if refusal(quantity, onnx) is not None:
        return
    plans = plans_of(subject, quantity)
    for plan, found in zip(plans, extract(onnx, plans), strict=True):
        assert_quantity(found, expected(definitions, quantity, plan), quantity)
        (alone,) = extract(onnx, [plan])
        assert_quantity(alone, found.astype(np.float64), quantity)


@on_three
def test_packed_weights_give_the_same(subject: Subject) -> None:
    packed = subject.load(pack=True)
    for quantity in BEYOND:
        if refusal(quantity, packed) is None:
            plans = plans_of(subject, quantity)
            for one, other in zip(extract(packed, plans), extract(subject.encoder, plans), strict=True):
                assert_quantity(one, other.astype(np.float64), quantity)
