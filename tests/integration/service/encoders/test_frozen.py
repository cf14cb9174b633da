"""Layers that are held constant in gradients: exact sums for every architecture, and DecompX written out in numpy for BERT."""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from bertscope_service.analyses.observers.declared_pooling import WholeText
from bertscope_service.analyses.observers.path_gradients import PathObserver
from bertscope_service.analyses.observers.targets import (
    AnswerTarget,
    EntryTarget,
    LabelTarget,
    NextSentenceTarget,
    SimilarityTarget,
    Target,
    WordLabelTarget,
)
from bertscope_service.checkpoints.declared_pooling import DeclaredPooling, Mode
from bertscope_service.encoders.heads import Head
from bertscope_service.encoders.torch.architectures import ARCHITECTURES
from bertscope_service.encoders.torch.frozen import FORMS, Frozen, activations_of, refusal_of
from numpy.typing import NDArray
from transformers.activations import ACT2FN

from tests.support.family import FAMILY, THREE, VARIANTS
from tests.support.reference import EDITS, Subject
from tests.support.rounding import BOTH_SIDES
from tests.support.runner import run_rows
from tests.support.tiny import write_checkpoint

KINDS: dict[str, tuple[Head, Mapping[str, Any], Target]] = {
    "mask": (Head.MASKED_LM, {}, EntryTarget(3, (10, 21))),
    "label": (Head.SEQUENCE, {"labels": 3}, LabelTarget((0,))),
    "word_label": (Head.TOKENS, {"task": "tokens", "labels": 3}, WordLabelTarget(2, (1,))),
    "answer": (Head.ANSWERS, {"task": "answers", "labels": 2}, AnswerTarget((2, 4))),
    "next_sentence": (Head.MASKED_LM, {"relates": True}, NextSentenceTarget()),
}
"""By kind of target: the head that it needs, and what to write for it."""


def similarity(size: int, mode: Mode = Mode.MEAN, *, normalised: bool = False) -> SimilarityTarget:
    """To a fixed vector."""
    other = np.random.default_rng(0).normal(size=size).astype(np.float32)
    return SimilarityTarget(WholeText(DeclaredPooling((mode,), normalised)), other)


def check_sum(subject: Subject, target: Target, *, edited: bool = True) -> None:
    """A frozen number is linear in states and biases together, so that it is the sum of all of them times their gradients."""
    encoder, sequence = subject.encoder, subject.sequences[3]
    biases = [one for name, one in encoder.architecture.model.named_parameters() if name.endswith("bias")]
    gates = encoder.place_edits([subject.gates(EDITS["mixed"])]) if edited else None
    state = encoder.begin([sequence])
    states = state.hidden = state.hidden.detach().requires_grad_()
    try:
        for bias in biases:
            bias.requires_grad_()
        with encoder.decomposition.frozen():
            value = type(target).values(encoder, state, gates, [target]).sum()
        terms = [states, *biases]
        gradients = torch.autograd.grad(value, terms, allow_unused=True)
    finally:
        for bias in biases:
            bias.requires_grad_(False)
    parts = [(one * of).detach().double() for one, of in zip(gradients, terms, strict=True) if one is not None]
    size = float(sum(part.abs().sum() for part in parts))
    assert float(sum(part.sum() for part in parts)) == pytest.approx(float(value.detach()), abs=BOTH_SIDES * max(1, size / 8))
    (plain,) = run_rows(encoder, [(sequence, target)], subject.gates(EDITS["mixed"]) if edited else None)
    assert float(value.detach()) == pytest.approx(plain, abs=1e-4)
    assert encoder.decomposition.frozen_refusal is None
    row = (sequence, PathObserver(target, np.ones(len(sequence), dtype=np.bool_), frozen=True))
    ((again, found),) = run_rows(encoder, [row], subject.gates(EDITS["mixed"]) if edited else None)
    assert again == pytest.approx(plain, abs=1e-4)
    assert gradients[0] is not None
    each = (gradients[0] * states).detach()
    atol = BOTH_SIDES * float(each.abs().sum(dim=2).max())
    np.testing.assert_allclose(found, each.sum(dim=2)[0], rtol=0, atol=atol)


@pytest.mark.every_architecture
@pytest.mark.parametrize(
    ("architecture", "kind"),
    [
        *((architecture, "mask") for architecture in FAMILY),
        *((name, kind) for name in THREE for kind in ("label", "word_label", "answer")),
        *((name, "next_sentence") for name in ("bert", "mobilebert")),
    ],
)
def test_states_and_biases_add_up(architecture: str, kind: str, tmp_path: Path) -> None:
    head, written, target = KINDS[kind]
    if ARCHITECTURES[architecture].name_of(head) is None:
        pytest.skip("transformers has no such head for it")
    check_sum(Subject(architecture, write_checkpoint(architecture, tmp_path / "model", **written)), target)


@pytest.mark.parametrize("subject", ["bert"], indirect=True)
def test_similarities_add_up(subject: Subject) -> None:
    for mode in (Mode.MEAN, Mode.CLS, Mode.MAX, Mode.WEIGHTED_MEAN):
        for normalised in (False, True):
            check_sum(subject, similarity(subject.encoder.shape.hidden_size, mode, normalised=normalised))


@pytest.mark.slow
@pytest.mark.parametrize(("architecture", "settings"), VARIANTS, ids=str)
def test_variants_add_up(architecture: str, settings: Mapping[str, Any], tmp_path: Path) -> None:
    subject = Subject(architecture, write_checkpoint(architecture, tmp_path / "model", settings=settings))
    check_sum(subject, EntryTarget(3, (10, 21)), edited=subject.encoder.shape.heads == 4)


@pytest.mark.parametrize(
    "name", ["gelu_new", "gelu_fast", "gelu_python", "quick_gelu", "relu2", "gelu_10", "mish", "leaky_relu"]
)
def test_activations_are_their_input_times_a_factor(name: str) -> None:
    read = torch.tensor([-3.0, -0.5, -1e-3, 0.0, 1e-6, 0.2, 4.0, 12.0], requires_grad=True)
    with Frozen():
        output = ACT2FN[name](read)
    (factor,) = torch.autograd.grad(output.sum(), read)
    plain = ACT2FN[name](read.detach())
    assert torch.equal(output.detach(), plain)
    torch.testing.assert_close(factor * read.detach(), plain)
    assert refusal_of(SimpleNamespace(to_dict=lambda: {"hidden_act": name})) is None


@pytest.mark.parametrize("name", ["sigmoid", "laplace"])
def test_an_activation_without_a_factor_is_refused(name: str, tmp_path: Path) -> None:
    subject = Subject("bert", write_checkpoint("bert", tmp_path / "model", settings={"hidden_act": name}))
    why = subject.encoder.decomposition.frozen_refusal
    assert why is not None
    assert repr(name) in why
    assert list(activations_of(subject.encoder.architecture.model.config)) == [("hidden_act", name)]


@pytest.mark.parametrize("subject", ["bert"], indirect=True)
def test_what_is_not_held_is_an_error(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a function that none of the rules knows."""
    sequence = subject.sequences[3]
    base = np.ones(len(sequence), dtype=np.bool_)

    def run(target: Target) -> None:
        run_rows(subject.encoder, [(sequence, PathObserver(target, base, frozen=True))])

    run(EntryTarget(3, (10,)))
    forms = {name: form for name, form in FORMS.items() if name != "layer_norm"}
    monkeypatch.setattr("bertscope_service.encoders.torch.frozen.FORMS", forms)
    with pytest.raises(RuntimeError, match="not linear"):
        run(EntryTarget(3, (10,)))


class DecompX:
    """DecompX without biases (Modarressi et al. 2023, section 3) forwards through transformers' BERT, in float64: what each
    token's vector before layer 0 has become at each position, [position, token, size]."""

    def __init__(self, subject: Subject) -> None:
        weights = subject.reference.model.double().state_dict()
        self.weights = {name: value.double().numpy() for name, value in weights.items()}
        config = subject.reference.model.config
        self.heads, self.layers, self.epsilon = config.num_attention_heads, config.num_hidden_layers, config.layer_norm_eps

    def linear(self, name: str, read: NDArray[np.float64], *, bias: bool) -> NDArray[np.float64]:
        found: NDArray[np.float64] = read @ self.weights[f"{name}.weight"].T
        return found + self.weights[f"{name}.bias"] if bias else found

    def norm(self, name: str, states: NDArray[np.float64], parts: NDArray[np.float64]) -> tuple[Any, Any]:
        deviation = np.sqrt(states.var(axis=-1, keepdims=True) + self.epsilon)
        scale = self.weights[f"{name}.weight"]
        whole = (states - states.mean(-1, keepdims=True)) / deviation * scale + self.weights[f"{name}.bias"]
        return whole, (parts - parts.mean(-1, keepdims=True)) / deviation[..., None, :] * scale

    def activated(self, name: str, states: NDArray[np.float64], parts: NDArray[np.float64]) -> tuple[Any, Any]:
        before = self.linear(name, states, bias=True)
        after = torch.nn.functional.gelu(torch.from_numpy(before)).numpy()
        return after, self.linear(name, parts, bias=False) * (after / before)[..., None, :]

    def attended(self, layer: str, states: NDArray[np.float64], parts: NDArray[np.float64]) -> tuple[Any, Any]:
        query, key, value = (self.linear(f"{layer}.self.{name}", states, bias=True) for name in ("query", "key", "value"))
        moved = self.linear(f"{layer}.self.value", parts, bias=False)
        contexts, moved_on = np.empty_like(value), np.empty_like(moved)
        size = value.shape[-1] // self.heads
        for head in range(self.heads):
            own = slice(head * size, (head + 1) * size)
            scores = torch.from_numpy(query[:, own] @ key[:, own].T / np.sqrt(size))
            weights = scores.softmax(dim=-1).numpy()
            contexts[:, own] = weights @ value[:, own]
            moved_on[..., own] = np.einsum("ij,jkd->ikd", weights, moved[..., own])
        output = f"{layer}.output.dense"
        return self.linear(output, contexts, bias=True) + states, self.linear(output, moved_on, bias=False) + parts

    def scores(self, states: NDArray[np.float64], position: int, entry: int) -> tuple[float, NDArray[np.float64]]:
        """The logit of an entry, and the part of each token, [length]."""
        parts = np.zeros((len(states), *states.shape))
        parts[np.arange(len(states)), np.arange(len(states))] = states
        for number in range(self.layers):
            layer = f"bert.encoder.layer.{number}"
            states, parts = self.attended(f"{layer}.attention", states, parts)
            states, parts = self.norm(f"{layer}.attention.output.LayerNorm", states, parts)
            inner, moved = self.activated(f"{layer}.intermediate.dense", states, parts)
            states = states + self.linear(f"{layer}.output.dense", inner, bias=True)
            parts = parts + self.linear(f"{layer}.output.dense", moved, bias=False)
            states, parts = self.norm(f"{layer}.output.LayerNorm", states, parts)
        head = "cls.predictions.transform"
        read, parts = self.activated(f"{head}.dense", states[position], parts[position])
        read, parts = self.norm(f"{head}.LayerNorm", read, parts)
        row = self.weights["cls.predictions.decoder.weight"][entry]
        return float(read @ row + self.weights["cls.predictions.decoder.bias"][entry]), parts @ row


@pytest.mark.parametrize("subject", ["bert"], indirect=True)
def test_frozen_gradients_are_decompx(subject: Subject) -> None:
    """For several texts in one padded batch, and positions and entries of any kind."""
    reference = DecompX(subject)
    chosen = [(subject.sequences[0], 2, 7), (subject.sequences[4], 5, 100), (subject.sequences[11], 0, 31)]
    rows = [
        (sequence, PathObserver(EntryTarget(position, (entry,)), np.ones(len(sequence), dtype=np.bool_), frozen=True))
        for sequence, position, entry in chosen
    ]
    for (sequence, position, entry), (value, found) in zip(chosen, run_rows(subject.encoder, rows), strict=True):
        states = subject.encoder.begin([sequence]).hidden[0].detach().double().numpy()
        wanted, parts = reference.scores(states, position, entry)
        assert value == pytest.approx(wanted, abs=BOTH_SIDES * 16)
        assert np.abs(parts).max() > 0.05
        np.testing.assert_allclose(found, parts, rtol=0, atol=BOTH_SIDES * max(1, float(np.abs(parts).max())))
