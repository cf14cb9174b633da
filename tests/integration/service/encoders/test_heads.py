"""Heads over positions and texts give what transformers gives, for every architecture; a head that is not whole is none."""

from collections.abc import Sequence
from dataclasses import fields
from itertools import cycle, product
from pathlib import Path
from typing import Any

import pytest
import torch
from bertscope_service.encoders.base import Capabilities, Encoder, ReadsPositions
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.heads import Head
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.torch.architectures import ARCHITECTURES

from tests.support.exports import load_exported
from tests.support.family import FAMILY
from tests.support.reference import EDITS, Reference, Subject, assert_close, assert_equal
from tests.support.subjects import THREE
from tests.support.tiny import LABELS, TASKS, write_checkpoint

HEADS: dict[str, dict[str, Any]] = {
    "token_classification": {"task": "tokens", "labels": 3},
    "question_answering": {"task": "answers", "labels": 2},
    "multi_label": {"labels": 3, "problem": "multi_label_classification"},
    "regression": {"labels": 1},
}
"""What to write for a head, by its capability."""


EXPORTABLE = [name for name, member in FAMILY.items() if not ARCHITECTURES[name].unexportable(member.config)]
KINDS = {"token_classification": Head.TOKENS, "question_answering": Head.ANSWERS} | dict.fromkeys(
    ("multi_label", "regression"), Head.SEQUENCE
)


OTHERS = [name for name in HEADS if name != "regression"]
CASES = [
    *(pytest.param(name, "regression", marks=pytest.mark.every_architecture) for name in FAMILY),
    *product(THREE, OTHERS),
    *((name, capability) for name, capability in zip(FAMILY, cycle(OTHERS), strict=False) if name not in THREE),
]
"""Architectures with the heads that are compared: all heads on the three that differ most, two on each other."""


@pytest.mark.parametrize(("architecture", "capability"), CASES)
@torch.inference_mode()
def test_a_head_equals_transformers(architecture: str, capability: str, tmp_path: Path) -> None:
    written = HEADS[capability]
    if ARCHITECTURES[architecture].name_of(KINDS[capability]) is None:
        pytest.skip("transformers has no such head for it")
    subject = Subject(architecture, write_checkpoint(architecture, tmp_path / "model", **written))
    encoder = subject.encoder
    assert [
        field.name for field in fields(Capabilities) if field.name in HEADS and getattr(encoder.capabilities, field.name)
    ] == [capability]
    assert not encoder.capabilities.masked_lm
    assert encoder.shape.head_labels == (LABELS[:3] if written["labels"] == 3 else ())
    found = given(encoder, capability, subject.sequences, watch=True)
    reference = Reference(subject.folder, kind=TASKS[written.get("task", "sequence")])
    for row, sequence in enumerate(subject.sequences):
        if architecture not in THREE and row % 4:
            continue
        # Some let a text see its padding, so that each is compared alone.
        output = reference.model(**reference.inputs([sequence]))
        expected = output.logits if "logits" in output else torch.stack((output.start_logits, output.end_logits), dim=-1)
        real = found[row, : len(sequence)] if found.ndim == 3 else found[row]
        torch.testing.assert_close(real, expected[0], rtol=0, atol=1e-4 * max(0.1, float(expected.abs().max())))
    batch = reference.model(**reference.inputs(subject.sequences))
    if not ARCHITECTURES[architecture].sees_padding and found.ndim == 3:
        whole = batch.logits if "logits" in batch else torch.stack((batch.start_logits, batch.end_logits), dim=-1)
        lengths = [len(sequence) for sequence in subject.sequences]
        for row, length in enumerate(lengths):
            assert_equal([found[row, :length]], [whole[row, :length]])


@pytest.mark.slow
@pytest.mark.parametrize(("architecture", "capability"), list(zip(EXPORTABLE[::2], cycle(KINDS), strict=False)))
@torch.inference_mode()
def test_a_head_of_graphs_equals_transformers(architecture: str, capability: str, tmp_path: Path, export_cache: Path) -> None:
    """One head of every other architecture: a graph's head is PyTorch's, compared above, on layers that test_onnx_parity.py
    compares. Of texts alone, since some let a text see its padding, and of all together as each alone; gates act before the
    head."""
    if ARCHITECTURES[architecture].name_of(KINDS[capability]) is None:
        pytest.skip("transformers has no such head for it")
    written = HEADS[capability]
    subject = Subject(architecture, write_checkpoint(architecture, tmp_path / "model", **written))
    graphs = load_exported(subject.folder, export_cache)
    assert (graphs.capabilities, graphs.shape.head_labels) == (subject.encoder.capabilities, subject.encoder.shape.head_labels)
    reference = Reference(subject.folder, kind=TASKS[written.get("task", "sequence")])
    batch = given(graphs, capability, subject.sequences)
    for row, sequence in enumerate(subject.sequences):
        output = reference.model(**reference.inputs([sequence]))
        expected = output.logits if "logits" in output else torch.stack((output.start_logits, output.end_logits), dim=-1)
        assert_close([given(graphs, capability, [sequence])[0], real(batch[row], sequence)], [expected[0], expected[0]])
    gates = [subject.gates(EDITS["mixed"]) for _ in subject.sequences]
    found, own = (given(one, capability, subject.sequences, gates) for one in (graphs, subject.encoder))
    for row, sequence in enumerate(subject.sequences):
        assert_close([real(found[row], sequence)], [real(own[row], sequence)])


def real(scores: torch.Tensor, sequence: TokenSequence) -> torch.Tensor:
    """Without padding: the scores of a text [labels], or of its tokens [length, labels]."""
    return scores if scores.ndim == 1 else scores[: len(sequence)]


def given(
    encoder: Encoder, capability: str, batch: Sequence[TokenSequence], gates: Sequence[Edits] = (), *, watch: bool = False
) -> torch.Tensor:
    """What a head gives: [rows, length, scores], or [rows, scores] of a head over texts.

    With `watch` maps are made, as transformers' eager attention makes them; its sums have the same order then.
    """
    state, layers = encoder.begin(batch), encoder.shape.layers
    watchers = dict.fromkeys(range(layers), lambda _: None) if watch else None
    encoder.advance(state, layers, encoder.place_edits(gates) if gates else None, watchers)
    assert isinstance(encoder, ReadsPositions)
    if capability == "token_classification":
        return encoder.label_tokens(state)
    return encoder.answer(state) if capability == "question_answering" else encoder.classify(state)
