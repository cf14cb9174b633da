"""Differences of the attention of two models, against a float64 reference on transformers' own maps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bertscope_service.analyses import attention_comparison
from bertscope_service.analyses.attention_comparison import Comparison, ComparisonPlan, ComparisonQuery, Side
from bertscope_service.analyses.attention_description import kinds_of
from bertscope_service.analyses.observers.attention_statistics import TokenKinds
from bertscope_service.analyses.observers.map_comparison import MapDifferences
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.observer import Observer
from bertscope_service.encoders.state import State
from bertscope_service.errors import InvalidArgument
from numpy.typing import NDArray

from tests.support.attention_definitions import jensen_shannon, statistics
from tests.support.reference import Reference, Subject
from tests.support.subjects import on_three
from tests.support.tiny import SENTENCES

INPUTS: tuple[tuple[str, str | None], ...] = (
    (SENTENCES[0], None),
    ("The unplayable song, the café.", SENTENCES[1]),
    (SENTENCES[-1], None),
    ("song", None),
)
QUERY = ComparisonQuery(INPUTS, (), truncate=False)


def other_weights(subject: Subject, folder: Path) -> Subject:
    """A copy of a model, all of whose matrices are changed."""
    model = Reference(subject.folder).model
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.2 * parameter.std())
    model.save_pretrained(folder)
    for path in subject.folder.iterdir():
        if not (folder / path.name).exists():
            (folder / path.name).write_bytes(path.read_bytes())
    return Subject(subject.architecture, folder)


def side(subject: Subject, name: str) -> Side:
    return Side(name, subject.tokenizer, subject.encoder.shape)


@torch.inference_mode()
def run(encoder: Encoder, rows: Sequence[tuple[Any, Observer, State | None]], gates: Edits | None = None) -> list[Any]:
    states = [state for _, _, state in rows if state is not None]
    state = State.stack(states) if states else encoder.begin([sequence for sequence, _, _ in rows])
    observers = [observer for _, observer, _ in rows]
    readout = type(observers[0]).run(encoder, state, encoder.place_edits([gates] * len(rows)), observers)
    return readout.deal(tuple(tensor.numpy() for tensor in readout.tensors))


def compare(plan: ComparisonPlan, first: Encoder, second: Encoder, gates: Edits | None = None) -> Comparison:
    """All steps of a plan; a group is a batch."""
    found: list[list[MapDifferences]] = []
    for group in plan.groups:
        steps: list[list[MapDifferences]] = [[] for _ in group.texts]
        states: list[tuple[State | None, State | None]] = [(None, None)] * len(group.texts)
        for start, stop in group.steps:
            texts = list(zip(group.texts, states, strict=True))
            kept = run(first, [(plan.texts[text].sequence, plan.keep(start, stop), own) for text, (own, _) in texts])
            rows = [
                (plan.others[text].sequence, plan.compare(text, start, stop, maps), own)
                for (text, (_, own)), maps in zip(texts, kept, strict=True)
            ]
            differences = run(second, rows, gates)
            states = [(maps.state, step.state) for maps, step in zip(kept, differences, strict=True)]
            for own, step in zip(steps, differences, strict=True):
                own.append(step)
        found += steps
    return plan.total(found)


def maps_of(reference: Reference, plan: ComparisonPlan, text: int) -> NDArray[np.float64]:
    maps = reference.run([plan.texts[text].sequence]).maps
    return torch.stack(list(maps))[:, 0].double().numpy()


def expected(first: NDArray[np.float64], second: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Cosine and divergence of one text, [layers, heads] each."""
    cosine, divergence = (np.zeros(first.shape[:2]) for _ in range(2))
    for place in np.ndindex(*first.shape[:2]):
        one, another = first[place], second[place]
        cosine[place] = (one * another).sum() / math.sqrt((one**2).sum() * (another**2).sum())
        divergence[place] = jensen_shannon(one, another)
    return cosine, divergence


def change(name: str, kinds: TokenKinds, first: NDArray[np.float64], second: NDArray[np.float64]) -> float | None:
    """The difference of a statistic of two maps, None if the text has none."""
    before, after = (statistics(one, kinds.texts.tolist(), kinds.punctuation.tolist())[name] for one in (first, second))
    return None if before is None or after is None else after - before


def check(plan: ComparisonPlan, found: Comparison, maps: Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]) -> None:
    pairs = list(maps)
    plan_kinds = [kinds_of(text, plan.punctuation) for text in plan.texts]
    cosine, divergence = (np.stack(parts) for parts in zip(*(expected(*pair) for pair in pairs), strict=True))
    assert found.cosine.texts == found.divergence.texts == len(pairs)
    np.testing.assert_allclose(found.cosine.sums, cosine.sum(axis=0), rtol=0, atol=1e-5)
    np.testing.assert_allclose(found.cosine.squares, (cosine**2).sum(axis=0), rtol=0, atol=2e-5)
    np.testing.assert_allclose(found.divergence.sums, divergence.sum(axis=0), rtol=0, atol=1e-5)
    for statistic, sums in found.differences.items():
        values = [
            [[change(statistic.name, kinds, *cell) for cell in zip(*layer, strict=True)] for layer in zip(*pair, strict=True)]
            for pair, kinds in zip(pairs, plan_kinds, strict=True)
        ]
        having = [np.array(value, dtype=np.float64) for value in values if value[0][0] is not None]
        assert sums.texts == len(having)
        np.testing.assert_allclose(sums.sums, np.sum(having, axis=0), rtol=0, atol=1e-4)


@pytest.mark.slow
def test_two_models_differ_as_their_maps_do(subject: Subject, tmp_path: Path) -> None:
    other = other_weights(subject, tmp_path / "other")
    plan = ComparisonPlan(QUERY, side(subject, "models/one"), side(other, "models/other"))
    texts = range(len(INPUTS))
    maps = ((maps_of(subject.reference, plan, text), maps_of(other.reference, plan, text)) for text in texts)
    found = compare(plan, subject.encoder, other.encoder)
    check(plan, found, maps)
    assert (found.divergence.sums > 1e-4).any()


@on_three
def test_one_model_differs_from_itself_under_interventions(subject: Subject) -> None:
    edits = {(0, 1): 0.0, (1, 0): 0.5}
    shape = subject.encoder.shape
    keep = np.ones((shape.layers, shape.heads), dtype=np.float32)
    for place, scale in edits.items():
        keep[place] = scale
    gates = Edits(keep, np.zeros_like(keep))
    own = side(subject, "models/one")
    plan = ComparisonPlan(QUERY, own, own)
    found = compare(plan, subject.encoder, subject.encoder, gates)
    # The maps of layer 0 come before any change, and those above after it.
    np.testing.assert_allclose(found.cosine.sums[0], len(INPUTS), rtol=0, atol=1e-5)
    np.testing.assert_allclose(found.divergence.sums[0], 0, rtol=0, atol=1e-5)
    assert (found.divergence.sums[1:] > 1e-7).any()
    for sums in found.differences.values():
        np.testing.assert_allclose(sums.sums[0], 0, rtol=0, atol=1e-4)


@on_three
def test_steps_and_groups_change_nothing(subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text alone, in a padded batch, and layer by layer."""
    other = other_weights(subject, tmp_path / "other")
    sides = side(subject, "models/one"), side(other, "models/other")
    whole = ComparisonPlan(QUERY, *sides)
    assert len(whole.groups) == 1
    together = compare(whole, subject.encoder, other.encoder)
    monkeypatch.setattr(attention_comparison, "KEPT_BYTES", 1)
    parts = ComparisonPlan(QUERY, *sides)
    assert [len(group.texts) for group in parts.groups] == [1] * len(INPUTS)
    assert all(len(group.steps) == subject.encoder.shape.layers for group in parts.groups)
    alone = compare(parts, subject.encoder, other.encoder)
    for name in ("cosine", "divergence"):
        np.testing.assert_allclose(getattr(together, name).sums, getattr(alone, name).sums, rtol=0, atol=1e-5)
    assert together.differences.keys() == alone.differences.keys()
    for statistic, sums in together.differences.items():
        assert sums.texts == alone.differences[statistic].texts
        np.testing.assert_allclose(sums.sums, alone.differences[statistic].sums, rtol=0, atol=1e-4)


def test_models_that_do_not_fit_are_told_apart(checkpoint: Callable[[str], Path]) -> None:
    bert, roberta = (Subject(name, checkpoint(name)) for name in ("bert", "roberta"))
    with pytest.raises(InvalidArgument, match=r"vocabulary entries|differently") as caught:
        ComparisonPlan(QUERY, side(bert, "models/bert"), side(roberta, "models/roberta"))
    assert caught.value.reason == "MODELS_DIFFER"
    assert "models/bert and models/roberta can't be compared" in str(caught.value)
