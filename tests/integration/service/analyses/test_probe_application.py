"""Kept probes on a model's states against numpy on transformers' own states, on three architectures and both runtimes."""

import numpy as np
import pytest
from bertscope_service.analyses.observers.pooling import Pooling
from bertscope_service.analyses.observers.probe_scores import Probes
from bertscope_service.analyses.probe_application import NO_LABEL, ApplicationPlan, ApplicationQuery
from bertscope_service.analyses.probes import LabelledText, SpanPlaces
from bertscope_service.analyses.texts import read_named_inputs
from bertscope_service.analyses.words import Span
from bertscope_service.encoders.base import Encoder
from bertscope_service.errors import FailedPrecondition, InvalidArgument
from numpy.typing import NDArray

from tests.support.reference import EDITS, Subject
from tests.support.runner import run_rows
from tests.support.tiny import SENTENCES

CLASSES, LAYERS = 3, (0, 2)


def plan_of(
    subject: Subject, pooling: Pooling = Pooling.MEAN, scale: float = 1.0, units: int = 0, *, pairs: bool = False
) -> ApplicationPlan:
    generator = np.random.default_rng(3)

    def drawn(*shape: int) -> NDArray[np.float32]:
        return (scale * generator.normal(size=(len(LAYERS), *shape))).astype(np.float32)

    inputs = subject.encoder.shape.hidden_size * (2 if pairs else 1)
    arrays = (
        (drawn(inputs, units), drawn(units), drawn(units, CLASSES), drawn(CLASSES))
        if units
        else (drawn(inputs, CLASSES), drawn(CLASSES))
    )
    probes = Probes(LAYERS, arrays, pairs)
    texts = [
        LabelledText(
            f"inputs[{index}].input",
            (text, None),
            [Span(0, 3, 0), Span(0, len(text), 0), Span(2, len(text) // 2, 0)],
            np.array([index % CLASSES, NO_LABEL, 1]),
            [Span(0, len(text), 0), Span(0, 3, 0), Span(len(text) // 3, len(text), 0)] if pairs else [],
        )
        for index, text in enumerate(SENTENCES[:5])
    ]
    return ApplicationPlan(ApplicationQuery(texts, probes, pooling, CLASSES, truncate=True), subject.tokenizer)


def check(subject: Subject, plan: ApplicationPlan, encoder: Encoder, batch: int, edits: str | None = None) -> None:
    gates = None if edits is None else subject.gates(EDITS[edits])
    answers_by_layer = plan.answers(run_rows(encoder, plan.rows, gates, batch=batch))
    runs = []
    for (sequence, _), text in zip(plan.rows, plan.query.texts, strict=True):
        run = subject.reference.run([sequence]) if edits is None else subject.reference.run_edited(sequence, EDITS[edits])
        states = [layer[0].double().numpy() for layer in run.hidden]
        (tokenized,) = read_named_inputs(subject.tokenizer, [text.input], [text.field], truncate=True)
        places = SpanPlaces(tokenized, subject.tokenizer)
        for span in zip(text.spans, *([text.others] if text.others else []), strict=True):
            found_places = [place for place in map(places.of, span) if isinstance(place, range)]
            if len(found_places) == len(span):
                runs.append((states, found_places))
    assert len(runs) == len(plan.labels) >= 10
    assert plan.reply_bytes > 8 * len(runs) * len(LAYERS) * CLASSES
    for index, (layer, own) in enumerate(zip(LAYERS, answers_by_layer, strict=True)):
        vectors = np.stack([np.concatenate([states[layer][list(one)].mean(axis=0) for one in own]) for states, own in runs])
        weights, biases, *output = (array[index].astype(np.float64) for array in plan.query.probes.arrays)
        scores = vectors @ weights + biases
        if output:
            scores = np.maximum(scores, 0) @ output[0] + output[1]
        logs = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
        np.testing.assert_allclose(own.probabilities, -np.sort(-np.exp(logs), axis=1), atol=2e-4)
        np.testing.assert_allclose(np.take_along_axis(np.exp(logs), own.classes, axis=1), own.probabilities, atol=2e-4)
        scored = plan.labels != NO_LABEL
        gold, answers = plan.labels[scored], own.classes[scored, 0]
        assert own.correct == (gold == answers).sum()
        assert own.loss == pytest.approx(-logs[scored, gold].sum(), rel=1e-3)
        confusion = np.zeros((CLASSES, CLASSES), np.int64)
        np.add.at(confusion, (gold, answers), 1)
        assert {(gold, answer): spans for gold, answer, spans in own.confusions.tolist()} == {
            (int(gold), int(answer)): int(confusion[gold, answer]) for gold, answer in np.argwhere(confusion)
        }


def test_answers_are_those_of_the_states(subject: Subject, encoder: Encoder) -> None:
    plan = plan_of(subject)
    for batch in (5, 1):
        check(subject, plan, encoder, batch)


@pytest.mark.parametrize("subject", ["bert"], indirect=True)
def test_hidden_units_and_pairs(subject: Subject) -> None:
    for units, pairs, batch in ((4, False, 5), (0, True, 1), (4, True, 5)):
        check(subject, plan_of(subject, units=units, scale=0.3, pairs=pairs), subject.encoder, batch)


def test_numbers_that_are_not_finite_are_an_error(subject: Subject) -> None:
    plan = plan_of(subject, scale=1e38)
    with pytest.raises(InvalidArgument, match="weights are too large"):
        plan.answers(run_rows(subject.encoder, plan.rows))
    plan = plan_of(subject)
    results = run_rows(subject.encoder, plan.rows)
    object.__setattr__(results[1], "finite", False)
    with pytest.raises(FailedPrecondition, match="hidden states are not finite"):
        plan.answers(results)
