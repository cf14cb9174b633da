"""Quantities beyond weights, against their definitions in float64: every architecture, alone and in padded batches."""

import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from bertscope_service.analyses import layer_steps
from bertscope_service.analyses.attention import AttentionObserver, AttentionPlan, AttentionQuery, TextPlan
from bertscope_service.analyses.layer_steps import LayerStep
from bertscope_service.analyses.observers.quantities import FROM_MAPS, Quantity, refusal
from bertscope_service.analyses.observers.rollout import Rollout
from bertscope_service.checkpoints.steps import Int8
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.state import State
from numpy.typing import NDArray

from tests.support.compressed import make
from tests.support.exports import load_exported
from tests.support.limits import limit_sizes
from tests.support.pruned import load, prune
from tests.support.quantities import Definitions
from tests.support.reference import EDITS, HeadEdits, Subject
from tests.support.rounding import BOTH_SIDES, assert_like_float32
from tests.support.subjects import everywhere
from tests.support.tiny import SENTENCES, write_checkpoint

INPUTS: tuple[tuple[str, str | None], ...] = (
    (SENTENCES[0], None),
    ("The unplayable café.", None),
    ("The unplayable song was recorded.", SENTENCES[1]),
)
NONE: HeadEdits = {}
BEYOND = [quantity for quantity in Quantity if quantity is not Quantity.WEIGHTS]
NORMALISED = (Quantity.LAYER_OUTPUT_NORMS, Quantity.ALTI, Quantity.GLOBENC)
OTHERS = {"mobilebert", "modernbert", "convbert", "squeezebert", "deberta", "esm", "esmc", "eurobert", "flaubert", "xmod"}
OTHERS |= {"megatron-bert", "roberta-prelayernorm", "xlm-roberta-xl"}


@pytest.fixture(scope="module")
def definitions(subject: Subject) -> Definitions:
    return Definitions(subject)


@pytest.fixture(scope="module")
def in_float32(subject: Subject) -> Definitions:
    return Definitions(subject, torch.float32)


def plans_of(subject: Subject, quantity: Quantity, *, words: bool = False) -> list[TextPlan]:
    shape = subject.encoder.shape
    heads = tuple(range(shape.heads)) if quantity.by_head else (0,)
    query = AttentionQuery(INPUTS, tuple(range(shape.layers)), heads, torch.float32, words, truncate=False, quantity=quantity)
    return AttentionPlan(query, subject.tokenizer, subject.encoder.device).texts


def len_of(plan: TextPlan) -> int:
    return len(plan.sequence)


@torch.inference_mode()
def extract(encoder: Encoder, plans: list[TextPlan], gates: Edits | None = None) -> list[NDArray[np.float32]]:
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
        readout = AttentionObserver.run(encoder, state, encoder.place_edits([gates] * len(plans)), observers)
        steps: list[LayerStep] = readout.deal(tuple(tensor.numpy() for tensor in readout.tensors))
        for gathered, step in zip(maps, steps, strict=True):
            gathered.append(np.asarray(step.values, dtype=np.float32))
        states, products = [step.state for step in steps], [step.product for step in steps]
    return [np.concatenate(gathered) for gathered in maps]


def expected(definitions: Definitions, quantity: Quantity, plan: TextPlan, edits: HeadEdits = NONE) -> NDArray[np.float64]:
    if quantity in FROM_MAPS:
        return definitions.rollout(plan.sequence, edits, residual=quantity is Quantity.ROLLOUT)
    define: Callable[..., NDArray[np.float64]] = getattr(definitions, quantity.value)
    return define(plan.sequence, edits)


def assert_quantity(found: NDArray[np.float32], wanted: NDArray[np.float64], quantity: Quantity) -> None:
    """Compares two computations in float32: norms beside the largest one, as they have no bound."""
    scale = float(wanted.max()) if "norms" in quantity.value else 1.0
    np.testing.assert_allclose(found, wanted, rtol=0, atol=BOTH_SIDES * max(1.0, scale))


def check(
    encoder: Encoder,
    subject: Subject,
    definitions: Definitions,
    in_float32: Definitions,
    quantities: Sequence[Quantity],
    edits: HeadEdits = NONE,
) -> None:
    """In a padded batch and alone; what an architecture lacks is refused by both runtimes."""
    gates = subject.gates(edits) if edits else None
    for quantity in quantities:
        assert (refusal(quantity, encoder) is None) == (refusal(quantity, subject.encoder) is None)
        if refusal(quantity, encoder) is not None:
            assert quantity in NORMALISED and subject.architecture in OTHERS
            continue
        plans = plans_of(subject, quantity)
        for plan, found in zip(plans, extract(encoder, plans, gates), strict=True):
            assert found.shape == plan.shape
            wanted, reference = (expected(one, quantity, plan, edits) for one in (definitions, in_float32))
            assert_like_float32(found, wanted, reference)
            (alone,) = extract(encoder, [plan], gates)
            assert_quantity(alone, found.astype(np.float64), quantity)


@pytest.mark.parametrize("kind", ["plain", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("packed", "graphs"))])
def test_quantities_are_what_they_are_defined_as(
    subject: Subject, definitions: Definitions, in_float32: Definitions, export_cache: Path, kind: str
) -> None:
    encoder: Encoder = subject.load(pack=True) if kind == "packed" else subject.encoder
    if kind == "graphs":
        encoder = load_exported(subject.folder, export_cache)
    check(encoder, subject, definitions, in_float32, BEYOND)


@pytest.mark.slow
@everywhere
def test_quantities_of_normalised_sums(subject: Subject, definitions: Definitions, in_float32: Definitions) -> None:
    """Of every architecture that normalises them, behind heads and nothing beside them."""
    check(subject.encoder, subject, definitions, in_float32, NORMALISED)


@pytest.mark.slow
def test_quantities_under_interventions(subject: Subject, definitions: Definitions, in_float32: Definitions) -> None:
    """The gated contribution keep * A + uniform / L counts; rollouts are of the maps themselves."""
    check(subject.encoder, subject, definitions, in_float32, BEYOND, EDITS["mixed"])


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
        np.testing.assert_allclose(meant[:2], zeroed[:2], rtol=0, atol=BOTH_SIDES)
        assert not meant[1, 2].any()
        assert np.abs(meant[2] - zeroed[2]).max() > 1e-3


@pytest.mark.parametrize("subject", ["bert"], indirect=True)
@pytest.mark.parametrize("quantity", list(Quantity), ids=lambda quantity: quantity.value)
def test_many_steps_give_the_same_numbers(subject: Subject, monkeypatch: pytest.MonkeyPatch, quantity: Quantity) -> None:
    whole = extract(subject.encoder, plans_of(subject, quantity))
    monkeypatch.setattr(layer_steps, "STEP_BYTES", 1)
    limit_sizes(monkeypatch, zeroing_tokens=40, contribution_bytes=1, map_bytes=1)
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


def test_norms_of_many_layers_stay_finite() -> None:
    matrices = torch.rand((60, 2, 1, 5, 5), generator=torch.Generator().manual_seed(1)) * 1000
    rollout, product = Rollout(None, of_norms=True), torch.eye(5, dtype=torch.float64)
    for matrix in matrices:
        rollout.multiply(matrix)
        product = matrix[:, 0].double() @ product
    np.testing.assert_allclose(rollout.shares()[:, 0], product / product.sum(-1, keepdim=True), rtol=0, atol=BOTH_SIDES)


def test_a_layer_that_ends_otherwise_has_no_second_normalisation(tmp_path: Path) -> None:
    folder = write_checkpoint("deberta-v2", tmp_path / "convolution", settings={"conv_kernel_size": 3})
    encoder = load("deberta-v2", folder)
    assert refusal(Quantity.ALTI, encoder) is None
    assert "ask for alti" in (refusal(Quantity.GLOBENC, encoder) or "")


PRUNED = {0: (1, 3), 2: (0, 1, 2, 3)}


@pytest.mark.parametrize(
    ("architecture", "runtime"),
    [("bert", "torch"), ("modernbert", "torch"), pytest.param("bert", "onnx", marks=pytest.mark.slow)],
)
def test_removed_heads_contribute_nothing(
    checkpoint: Callable[[str], Path], export_cache: Path, tmp_path: Path, architecture: str, runtime: str
) -> None:
    """A pruned model has the norms of the whole one with these heads at zero; of a layer without heads the residual is left."""
    whole = Subject(architecture, checkpoint(architecture))
    folder = prune(whole.folder, PRUNED, tmp_path / "pruned")
    encoder: Encoder = load(architecture, folder) if runtime == "torch" else load_exported(folder, export_cache)
    gates = whole.gates({(layer, head): (0.0, 0.0) for layer, heads in PRUNED.items() for head in heads})
    for quantity in (Quantity.NORMS, Quantity.LAYER_NORMS, *NORMALISED, Quantity.VALUE_ZEROING):
        if refusal(quantity, encoder) is not None:
            # A graph without attention in a layer has no sum to normalise there.
            assert quantity in NORMALISED
            assert runtime == "onnx" or architecture == "modernbert"
            continue
        plans = plans_of(whole, quantity)
        for found, expected in zip(extract(encoder, plans), extract(whole.encoder, plans, gates), strict=True):
            assert_quantity(found, expected.astype(np.float64), quantity)
    plans = plans_of(whole, Quantity.ROLLOUT)
    weights = extract(encoder, plans_of(whole, Quantity.WEIGHTS))
    for found, maps in zip(extract(encoder, plans), weights, strict=True):
        product = np.eye(maps.shape[-1])
        for layer, rolled in enumerate(found[:, 0]):
            heads = 4 - len(PRUNED.get(layer, ()))
            mixed = maps[layer].astype(np.float64).sum(axis=0) / heads if heads else np.eye(len(product))
            product = (mixed + np.eye(len(product))) / 2 @ product
            np.testing.assert_allclose(rolled, product, rtol=0, atol=BOTH_SIDES)


@pytest.mark.parametrize("subject", ["bert"], indirect=True)
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_half_precision_has_the_same_norms_roughly(subject: Subject, precision: str) -> None:
    """In the first layer; further up, tiny random models amplify the rounding."""
    half = subject.load(precision=precision, pack=True)
    assert refusal(Quantity.VALUE_ZEROING, half) is not None
    for quantity in (Quantity.NORMS, Quantity.LAYER_NORMS, *NORMALISED):
        plans = plans_of(subject, quantity)
        for found, expected in zip(extract(half, plans), extract(subject.encoder, plans), strict=True):
            np.testing.assert_allclose(found[0], expected[0], rtol=0, atol=0.05 * float(expected[0].max()))


def test_integers_have_the_norms_of_their_values(checkpoint: Callable[[str], Path], tmp_path: Path) -> None:
    """Int8 weights are decoded exactly; the model differs by its rounding, which further layers amplify."""
    whole = Subject("bert", checkpoint("bert"))
    make(whole.folder, tmp_path / "int8", Int8())
    encoder = load("bert", tmp_path / "int8", precision="int8")
    assert refusal(Quantity.VALUE_ZEROING, encoder) is not None
    plans = plans_of(whole, Quantity.NORMS)
    sizes = []
    for one in (encoder, whole.encoder):
        weights = extract(one, plans_of(whole, Quantity.WEIGHTS))
        sizes.append([found[0, :, 0] / maps[0, :, 0] for found, maps in zip(extract(one, plans), weights, strict=True)])
    for found, expected in zip(*sizes, strict=True):
        np.testing.assert_allclose(found, expected, rtol=0.05)


@pytest.mark.parametrize("subject", ["bert"], indirect=True)
def test_an_encoder_that_was_taken_apart_is_freed_with_its_last_reference(subject: Subject) -> None:
    encoder = subject.load(pack=False)
    for quantity in BEYOND:
        assert refusal(quantity, encoder) is None
        extract(encoder, plans_of(subject, quantity)[:1])
    freed = weakref.ref(encoder)
    del encoder
    assert freed() is None
