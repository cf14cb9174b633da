"""Gradients along a path, against plain loops over transformers' modules in float64; integrated gradients, step by step."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
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
    Scale,
    SimilarityTarget,
    Target,
    ValueTarget,
    WordLabelTarget,
)
from bertscope_service.analyses.path_attribution import GradientWork, Steps
from bertscope_service.analyses.state_units import StatesInput, Unit
from bertscope_service.analyses.text_units import TextUnits, find_units
from bertscope_service.checkpoints.declared_pooling import DeclaredPooling, Mode
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.heads import Head
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.torch.architectures import ARCHITECTURES
from numpy.typing import NDArray
from transformers import AutoModelForMaskedLM, AutoModelForNextSentencePrediction

from tests.support.family import FAMILY
from tests.support.limits import limit_sizes
from tests.support.reference import EDITS, Editing, Reference, Subject
from tests.support.rounding import BOTH_SIDES
from tests.support.runner import run_rows
from tests.support.tiny import TASKS, write_checkpoint

OTHER = np.linspace(-1, 1, 48, dtype=np.float32)
"""The beginning of a vector that texts are compared with."""


@dataclass(frozen=True)
class Kind:
    """A kind of target: the number by transformers' outputs, what to write for its head, and transformers' class."""

    target: Target
    score: Callable[[Any], torch.Tensor]
    written: Mapping[str, Any]
    head: Head = Head.MASKED_LM
    model: Any = AutoModelForMaskedLM


def cosine(output: Any) -> torch.Tensor:
    vector = output.hidden_states[-1][0].mean(dim=0)
    return torch.cosine_similarity(vector, torch.from_numpy(OTHER[: len(vector)]).to(vector.dtype), dim=0)


def answer(output: Any) -> torch.Tensor:
    return output.start_logits[0].log_softmax(-1)[2] + output.end_logits[0].log_softmax(-1)[4]


LABELS = {"labels": 3}
SEQUENCE, TOKENS, ANSWERS = TASKS.values()
MEAN = WholeText(DeclaredPooling((Mode.MEAN,)))
KINDS = {
    "mask": Kind(EntryTarget(3, (10, 21)), lambda out: out.logits[0, 3, 10] - out.logits[0, 3, 21], {}),
    "entry": Kind(EntryTarget(4, (33,), Scale.LOG_PROBABILITY), lambda out: out.logits[0, 4].log_softmax(-1)[33], {}),
    "label": Kind(
        LabelTarget((1,), Scale.PROBABILITY), lambda out: out.logits[0].softmax(-1)[1], LABELS, Head.SEQUENCE, SEQUENCE
    ),
    "label_of_several": Kind(
        LabelTarget((0, 2), Scale.PROBABILITY, several=True),
        lambda out: out.logits[0, 0].sigmoid() - out.logits[0, 2].sigmoid(),
        LABELS | {"problem": "multi_label_classification"},
        Head.SEQUENCE,
        SEQUENCE,
    ),
    "word_label": Kind(
        WordLabelTarget(2, (1, 0)),
        lambda out: out.logits[0, 2, 1] - out.logits[0, 2, 0],
        LABELS | {"task": "tokens"},
        Head.TOKENS,
        TOKENS,
    ),
    "answer": Kind(
        AnswerTarget((2, 4), Scale.LOG_PROBABILITY), answer, {"labels": 2, "task": "answers"}, Head.ANSWERS, ANSWERS
    ),
    "value": Kind(ValueTarget(), lambda out: out.logits[0, 0], {"labels": 1}, Head.SEQUENCE, SEQUENCE),
    "similarity": Kind(SimilarityTarget(MEAN, OTHER[:32]), cosine, {}),
    "next_sentence": Kind(
        NextSentenceTarget(Scale.PROBABILITY),
        lambda out: out.logits[0].softmax(-1)[0],
        {"relates": True},
        model=AutoModelForNextSentencePrediction,
    ),
}
LAST_OF_EMBEDDINGS = (
    "encoder.embedding_hidden_mapping_in",
    "embeddings_project",
    "layer_norm_emb",
    "embeddings",
    "embed_tokens",
)
"""Where the states before layer 0 come from, below the base of transformers' models; the first one that is there."""


class Line:
    """Numbers of one text after another by transformers in float64, alone and unpadded, from given states before layer 0."""

    def __init__(self, subject: Subject, kind: Kind, *, edited: bool) -> None:
        self.reference = Reference(subject.folder, torch.float64, kind.model)
        self.score, self.edits = kind.score, EDITS["mixed"] if edited else {}
        modules = dict(self.reference.model.base_model.named_modules())
        self.embedded = next(modules[name] for name in LAST_OF_EMBEDDINGS if name in modules)

    def run(self, sequence: TokenSequence, states: torch.Tensor | None = None) -> tuple[Any, torch.Tensor]:
        """The outputs, and the states of the text's own embeddings."""
        seen = list[torch.Tensor]()

        def replace(_: Any, __: Any, output: torch.Tensor) -> torch.Tensor | None:
            seen.append(output.detach().clone())
            return None if states is None else states + 0  # XLM changes them in place

        hook = self.embedded.register_forward_hook(replace)
        try:
            with Editing(self.edits):
                output = self.reference.model(**self.reference.inputs([sequence]), output_hidden_states=True)
        finally:
            hook.remove()
        return output, seen[0]

    @torch.no_grad()
    def states(self, sequence: TokenSequence) -> torch.Tensor:
        return self.run(sequence)[1]

    def contributions(
        self, sequence: TokenSequence, base: torch.Tensor, share: float
    ) -> tuple[float, NDArray[np.float64], float]:
        """The number, gradient times difference at each position, and the most that was added up at one."""
        with torch.no_grad():
            text = self.run(sequence)[1]
        point = (base + share * (text - base)).requires_grad_()
        value = self.score(self.run(sequence, point)[0])
        (gradient,) = torch.autograd.grad(value, point)
        each = gradient * (text - base)
        return float(value.detach()), each.sum(dim=2)[0].numpy(), float(each.abs().sum(dim=2).max())


def other_words(sequence: TokenSequence) -> TokenSequence:
    """The same text with other pieces in some places."""
    ids = np.array(sequence.ids)
    ids[1:-1:2] = (ids[1:-1:2] * 7 + 11) % 60 + 20
    return TokenSequence(ids, sequence.segments)


def check(subject: Subject, kind: Kind, *, edited: bool) -> None:
    """Rows of two texts in one padded batch and alone, from other words and from zeros."""
    line, gates = Line(subject, kind, edited=edited), subject.gates(EDITS["mixed"]) if edited else None
    for from_zeros in (False, True):
        rows, wanted = list[tuple[TokenSequence, PathObserver]](), []
        for sequence, share in ((subject.sequences[0], 1.0), (subject.sequences[3], 0.25), (subject.sequences[1], 0.0)):
            zeros = np.arange(len(sequence)) % 3 == 1
            other = other_words(sequence)
            rows.append((sequence, PathObserver(kind.target, zeros if from_zeros else other, share)))
            base = line.states(other)
            if from_zeros:
                base = line.states(sequence)
                base[:, torch.from_numpy(zeros)] = 0
            wanted.append(line.contributions(sequence, base, share))
        for batch in (5, 1):
            for (value, found), (number, parts, size) in zip(
                run_rows(subject.encoder, rows, gates, batch=batch), wanted, strict=True
            ):
                assert value == pytest.approx(number, abs=1e-4)
                np.testing.assert_allclose(found, parts, rtol=0, atol=BOTH_SIDES * size)
        assert max(size for _, _, size in wanted) > 1e-3


@pytest.mark.parametrize(
    ("architecture", "kind"), [*product(FAMILY, ["mask"]), *product(["bert"], [*KINDS][1:]), ("mobilebert", "next_sentence")]
)
def test_gradients_are_those_of_transformers(architecture: str, kind: str, tmp_path: Path) -> None:
    if ARCHITECTURES[architecture].name_of(KINDS[kind].head) is None:
        pytest.skip("transformers has no such head for it")
    subject = Subject(architecture, write_checkpoint(architecture, tmp_path / "model", **KINDS[kind].written))
    if kind == "similarity":
        size = subject.encoder.shape.hidden_size
        check(subject, Kind(SimilarityTarget(MEAN, OTHER[:size]), cosine, {}), edited=True)
        return
    check(subject, KINDS[kind], edited=kind in ("mask", "label", "answer"))


TEXT = "The old man [MASK] to the market every day, unbelievably."


def units_of(subject: Subject, text: str = TEXT, unit: Unit = Unit.WORD) -> TextUnits:
    return find_units(subject.tokenizer.encode(text), unit, StatesInput(text, None, ()), subject.tokenizer, "inputs[0]")


def target_of(units: TextUnits, subject: Subject, scale: Scale = Scale.LOGIT) -> EntryTarget:
    return EntryTarget(int(np.flatnonzero(units.ids == subject.tokenizer.mask_id)[0]), (40, 71), scale)


def done(subject: Subject, work: GradientWork, gates: Edits | None = None, *, batch: int = 5) -> list[int]:
    """Runs all rounds. Returns the rows of each."""
    rounds = []
    while work.rows:
        rounds.append(len(work.rows))
        work.advance(run_rows(subject.encoder, work.rows, gates, batch=batch))
    assert work.evaluations == sum(rounds)
    return rounds


@pytest.mark.slow
@pytest.mark.parametrize("masked", [True, False], ids=["mask", "zero"])
def test_integrated_gradients_are_the_mean_over_midpoints(subject: Subject, masked: bool) -> None:
    """By a loop over transformers, with and without tripled steps."""
    units = units_of(subject)
    target, mask_id = target_of(units, subject), subject.tokenizer.mask_id
    kind = Kind(target, lambda out: out.logits[0, target.position, 40] - out.logits[0, target.position, 71], {})
    line, text = Line(subject, kind, edited=False), units.tokenized.sequence
    base = line.states(units.without(np.zeros(len(units), dtype=bool), mask_id))
    if not masked:
        base = line.states(text)
        base[:, torch.from_numpy(units.of >= 0)] = 0
    rows = [line.contributions(text, base, (step + 0.5) / 6) for step in range(6)]
    parts, size = np.mean([parts for _, parts, _ in rows], axis=0), max(size for _, _, size in rows)
    value, value_absent = (line.contributions(text, base, end)[0] for end in (1.0, 0.0))
    for first, rounds in ((2, [4, 4]), (6, [8])):
        work = GradientWork(units, target, mask_id if masked else None, Steps(first, 6, 1e-9))
        assert done(subject, work) == rounds
        shares = work.shares
        assert (shares.value, shares.value_absent) == pytest.approx((value, value_absent), abs=1e-4)
        assert shares.steps == 6
        for unit in range(len(units)):
            own = np.flatnonzero(units.of == unit)
            assert shares.values[unit] == pytest.approx(parts[own].sum(), abs=BOTH_SIDES * size * len(own))
        difference = value - value_absent
        least = max(abs(difference), 0.1 * float(np.abs(shares.values).sum()))
        assert shares.completeness_error == pytest.approx(abs(parts.sum() - difference) / least, abs=1e-3)
    assert np.abs(shares.values).max() > 0.05


def test_nothing_absent_leaves_no_error(subject: Subject) -> None:
    """A unit that is as its mask is moves nothing, and no error is 0 / 0."""
    units = units_of(subject)
    same = TextUnits(units.tokenized, units.tokens[:1], np.where(units.of == 0, 0, -1), units.ids, units.segments)
    work = GradientWork(same, target_of(units, subject), int(same.ids[same.of == 0][0]), Steps(1, 9, 1e-4))
    assert done(subject, work) == [3]
    assert (work.shares.values.tolist(), work.shares.completeness_error) == ([0.0], pytest.approx(0.0, abs=1e-6))


def test_parts_of_a_batch(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many tokens a backward pass takes; each row has gates of its own, and runs leave nothing behind."""
    text, other = subject.sequences[3], other_words(subject.sequences[3])
    target = EntryTarget(3, (10, 21))
    observers = [PathObserver(target, other, share) for share in (0.1, 0.5, 0.9, 1.0)]
    gates = [None, subject.gates(EDITS["mixed"]), None, subject.gates(EDITS["half"])]
    found = {}
    for tokens in (1, 2 * len(text), 1 << 20):
        limit_sizes(monkeypatch, gradient_tokens=tokens)
        with torch.inference_mode():
            state, placed = subject.encoder.begin([text] * 4), subject.encoder.place_edits(gates)
            readout = PathObserver.run(subject.encoder, state, placed, observers)
            assert not any(tensor.requires_grad for tensor in readout.tensors)
            found[tokens] = readout.deal(tuple(tensor.numpy() for tensor in readout.tensors))
    size = max(float(np.abs(parts).max()) for _, parts in found[1])
    for other_found in (found[2 * len(text)], found[1 << 20]):
        for (value, parts), (again, others) in zip(found[1], other_found, strict=True):
            assert again == pytest.approx(value, abs=1e-5)
            np.testing.assert_allclose(others, parts, rtol=0, atol=BOTH_SIDES * size)
    assert all(parameter.grad is None for parameter in subject.encoder.architecture.model.parameters())
