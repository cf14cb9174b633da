"""Attribution of logits: an exact sum in both runtimes; its terms against transformers' model with frozen normalisations."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from bertscope_service.analyses.attribution import AttributedInput, AttributionPlan, AttributionQuery
from bertscope_service.analyses.observers.attribution import AttributionScores
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.decomposition import Part, decomposition_of
from bertscope_service.encoders.edits import Edits
from bertscope_service.errors import InvalidArgument

from tests.support.reference import EDITS, Reference, Subject
from tests.support.runner import run_rows
from tests.support.tiny import ARCHITECTURES

ANSWERS = ("a", "i")
INPUTS = (
    AttributedInput("Paris is the [MASK] of France.", None, ANSWERS, None),
    AttributedInput("The [MASK] sat on the [MASK] in the garden, and the old man said so.", None, ANSWERS, 1),
    AttributedInput("A [MASK] cat.", "It sat in the house.", ANSWERS[::-1], 0),
)
QUERY = AttributionQuery(INPUTS, ablate=False, truncate=False, max_row_tokens=1_000_000)


def plan_of(subject: Subject, query: AttributionQuery = QUERY) -> AttributionPlan:
    return AttributionPlan(query, subject.tokenizer, subject.encoder.shape)


def attribute(encoder: Encoder, plan: AttributionPlan, gates: Edits | None = None, batch: int = 5) -> list[AttributionScores]:
    return list(plan.answer(run_rows(encoder, plan.rows, gates, batch=batch)))


def flat(scores: AttributionScores) -> np.ndarray:
    parts = (scores.heads, scores.feed_forward, scores.biases, scores.shifts, [scores.embeddings, scores.head])
    return np.concatenate([np.ravel(part) for part in parts])


@pytest.mark.two_architectures
@pytest.mark.parametrize("subject", ARCHITECTURES, indirect=True)
def test_terms_sum_to_the_difference_of_transformers_logits(subject: Subject, encoder: Encoder) -> None:
    """By both runtimes, padded and alone, and under gates; runtimes agree on every term."""
    if subject.architecture == "mobilebert":
        decomposition = decomposition_of(encoder)
        assert decomposition is not None
        assert decomposition.refusal(Part.STREAM)
        return
    plan = plan_of(subject)
    for edits in ("none", "mixed"):
        gates = None if edits == "none" else subject.gates(EDITS[edits])
        by_runtime = [attribute(one, plan, gates) for one in (subject.encoder, encoder)]
        for found in (*by_runtime, attribute(subject.encoder, plan, gates, batch=1)):
            for text, scores, first in zip(plan.texts, found, by_runtime[0], strict=True):
                sequence = text.tokenized.sequence
                run = subject.reference.run_edited(sequence, EDITS.get(edits, {}))
                logits = run.logits[0, text.position].double()
                difference = float(logits[text.ids[0]] - logits[text.ids[1]])
                assert scores.difference == pytest.approx(difference, abs=1e-3)
                assert float(flat(scores).sum(dtype=np.float64)) == pytest.approx(scores.difference, abs=1e-4)
                np.testing.assert_allclose(flat(scores), flat(first), atol=1e-3)
    assert np.abs(by_runtime[0][0].heads).max() > 0.01


class Frozen:
    """transformers' BERT whose normalisations keep the deviations of one run."""

    def __init__(self, reference: Reference, position: int) -> None:
        self.model, self.position = reference.model, position
        self.norms = [module for module in self.model.modules() if isinstance(module, torch.nn.LayerNorm)]
        self.activation = self.model.cls.predictions.transform.transform_act_fn
        self.deviations, self.factors = dict[torch.nn.Module, torch.Tensor](), list[torch.Tensor]()

    def learn(self, module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], _: torch.Tensor) -> None:
        (read,) = inputs
        self.deviations[module] = torch.sqrt(read.var(-1, correction=0, keepdim=True) + module.eps)  # type: ignore[operator]

    def normalise(self, module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], _: torch.Tensor) -> torch.Tensor:
        (read,) = inputs
        return (read - read.mean(-1, keepdim=True)) / self.deviations[module] * module.weight + module.bias  # type: ignore[operator]


@torch.inference_mode()
def frozen_term(
    reference: Reference, inputs: dict[str, torch.Tensor], position: int, remove: Callable[[], object]
) -> torch.Tensor:
    """How the logits at a position fall when a part is removed there from the sums of the states alone: attention and
    feed-forward blocks of all layers give what they gave, normalisations and the head's activation keep their factors."""
    model, frozen = reference.model, Frozen(reference, position)
    blocks = [layer.attention.output.dense for layer in model.bert.encoder.layer]
    blocks += [layer.output.dense for layer in model.bert.encoder.layer]
    given, hooks = dict[torch.nn.Module, torch.Tensor](), list[torch.utils.hooks.RemovableHandle]()
    transform = model.cls.predictions.transform

    def keep(module: torch.nn.Module, _: object, output: torch.Tensor) -> None:
        given[module] = output.clone()

    def factor(_: torch.nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        frozen.factors.append(output / inputs[0])

    try:
        hooks += [block.register_forward_hook(keep) for block in blocks]
        hooks += [norm.register_forward_hook(frozen.learn) for norm in frozen.norms]
        hooks.append(transform.transform_act_fn.register_forward_hook(factor))
        whole = model(**inputs).logits[0, position]
        for hook in hooks:
            hook.remove()
        hooks = [block.register_forward_hook(lambda module, _, __: given[module]) for block in blocks]
        hooks += [norm.register_forward_hook(frozen.normalise) for norm in frozen.norms]
        (kept,) = frozen.factors
        hooks.append(transform.transform_act_fn.register_forward_hook(lambda _, inputs, __: inputs[0] * kept))
        torch.testing.assert_close(model(**inputs).logits[0, position], whole, atol=1e-3, rtol=1e-3)
        remove_from = remove()
        assert isinstance(remove_from, tuple)
        block, part = remove_from
        given[block][0, position] -= part(given)
        return whole - model(**inputs).logits[0, position]
    finally:
        for hook in hooks:
            hook.remove()


@pytest.mark.slow
def test_terms_of_heads_and_blocks_are_what_goes_missing_without_them(checkpoint: Callable[[str], Path]) -> None:
    """Brute force on BERT: one part is taken out of the stream, with all else frozen."""
    subject = Subject("bert", checkpoint("bert"))
    plan = plan_of(subject, replace(QUERY, inputs=INPUTS[:1]))
    (scores,), (text,) = attribute(subject.encoder, plan), plan.texts
    first, second = text.ids
    reference, layers = subject.reference, subject.reference.model.bert.encoder.layer
    inputs, contexts = reference.inputs([text.tokenized.sequence]), dict[int, torch.Tensor]()
    hooks = [
        layer.attention.output.dense.register_forward_pre_hook(
            lambda _, given, number=number: contexts.__setitem__(number, given[0][0, text.position].clone())
        )
        for number, layer in enumerate(layers)
    ]
    with torch.inference_mode():
        reference.model(**inputs)
    for hook in hooks:
        hook.remove()
    size = subject.encoder.architecture.head_size
    for number, layer in enumerate(layers):
        dense = layer.attention.output.dense

        def fall(block: torch.nn.Module, part: Callable[[dict[torch.nn.Module, torch.Tensor]], torch.Tensor]) -> float:
            logits = frozen_term(reference, inputs, text.position, lambda: (block, part))
            return float(logits[first] - logits[second])

        for head in range(subject.encoder.shape.heads):
            own = slice(head * size, (head + 1) * size)
            vector = dense.weight.detach()[:, own] @ contexts[number][own]
            assert scores.heads[number, head] == pytest.approx(fall(dense, lambda _, v=vector: v), abs=1e-3)
        assert scores.biases[number] == pytest.approx(fall(dense, lambda _, d=dense: d.bias.detach()), abs=1e-3)
        block = layer.output.dense
        whole = fall(block, lambda given, b=block: given[b][0, text.position].clone())
        assert scores.feed_forward[number] == pytest.approx(whole, abs=1e-3)


@pytest.mark.parametrize("subject", ["bert"], indirect=True)
def test_ablations_of_too_many_tokens_are_refused(subject: Subject) -> None:
    with pytest.raises(InvalidArgument) as caught:
        plan_of(subject, replace(QUERY, ablate=True, max_row_tokens=100))
    assert caught.value.reason == "TOO_MANY_TOKENS"
