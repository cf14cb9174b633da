"""Labels of texts, and objectives that measure them, against plain transformers, one text at a time."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bertscope_service.analyses.ablation import Metric
from bertscope_service.analyses.classification import ClassifyPlan, ClassifyQuery, PredictValuesPlan
from bertscope_service.analyses.objectives.base import Objective
from bertscope_service.analyses.objectives.build import ObjectiveQuery, build_objective
from bertscope_service.analyses.objectives.divergence import DivergenceQuery
from bertscope_service.analyses.objectives.labelled import LabelledObjective, LabelledQuery, LabelledText
from bertscope_service.encoders.edits import Edits
from bertscope_service.errors import FailedPrecondition, InvalidArgument
from numpy.typing import NDArray
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from tests.support.reference import Subject
from tests.support.runner import run_rows
from tests.support.tiny import LABELS, SENTENCES, write_checkpoint

EDITS = {(0, 1): (0.0, 0.0), (2, 3): (0.0, 1.0), (1, 0): (-1.5, 0.0)}


def build(subject: Subject, query: ObjectiveQuery) -> Objective:
    return build_objective(query, subject.tokenizer, subject.encoder, "models/m")


def see(subject: Subject, objective: Objective, observers: Sequence[Any], gates: Edits | None = None) -> list[Any]:
    return run_rows(subject.encoder, list(zip(objective.sequences, observers, strict=True)), gates)


def refusal(subject: Subject, query: ObjectiveQuery) -> tuple[str, str]:
    with pytest.raises(InvalidArgument) as caught:
        build(subject, query)
    return caught.value.field, caught.value.reason


@pytest.fixture(scope="module", params=["bert", "roberta", "distilbert", "electra"])
def classifier(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    folder: Path = tmp_path_factory.mktemp("classifiers") / request.param
    return Subject(request.param, write_checkpoint(request.param, folder, labels=3))


INPUTS = (("The cat sat.", None), ("Paris is old.", "The café in Zürich."), (SENTENCES[-1], None), ("No!", None))


def expected_logs(classifier: Subject) -> NDArray[np.float64]:
    """[texts, labels], by transformers."""
    model = AutoModelForSequenceClassification.from_pretrained(classifier.folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(classifier.folder)
    with torch.inference_mode():
        logits = [model(**tokenizer(text, pair, return_tensors="pt")).logits[0] for text, pair in INPUTS]
    logs: NDArray[np.float64] = torch.stack(logits).double().log_softmax(dim=-1).numpy()
    return logs


def labelled(*golds: str | int) -> LabelledQuery:
    texts = tuple(LabelledText(*entry, gold) for entry, gold in zip(INPUTS, golds, strict=False))
    return LabelledQuery(texts, truncate=False)


def test_labels(classifier: Subject) -> None:
    logs = expected_logs(classifier)
    objective = build(classifier, labelled("negative", 1, "neutral", "positive"))
    golds = [0, 1, 2, 1]
    accuracies, losses = objective.measure(see(classifier, objective, objective.observers))
    assert accuracies.tolist() == [int(row.argmax()) == gold for row, gold in zip(logs, golds, strict=True)]
    assert losses == pytest.approx([-row[gold] for row, gold in zip(logs, golds, strict=True)], abs=1e-4)
    assert (objective.metrics, objective.pieces, len(objective.losses)) == ((Metric.ACCURACY, Metric.LOSS), 0, 4)


def test_divergence_of_labels(classifier: Subject) -> None:
    objective = build(classifier, DivergenceQuery(INPUTS, truncate=False))
    untouched = see(classifier, objective, objective.observers)
    assert objective.measure(untouched).tolist() == [[0.0] * 4]
    later = objective.later_observers(untouched)
    assert objective.measure(untouched).tolist() == [[0.0] * 4]
    changed = see(classifier, objective, later, classifier.gates(EDITS))
    (found,) = objective.measure(changed)
    before = expected_logs(classifier)
    after = torch.tensor(np.array(changed)).double().log_softmax(dim=-1).numpy()
    assert found == pytest.approx((np.exp(before) * (before - after)).sum(axis=1), abs=1e-4)
    assert found.min() > 0


def test_bad_labels(classifier: Subject) -> None:
    field = "objective.classification.texts[1]"
    assert refusal(classifier, labelled(0, 3)) == (f"{field}.label_index", "LABEL_OUT_OF_RANGE")
    assert refusal(classifier, labelled(0, "Negative")) == (f"{field}.label", "UNKNOWN_LABEL")
    query = LabelledQuery((LabelledText("a", None, 0), LabelledText("cat " * 100, None, 0)), truncate=False)
    assert refusal(classifier, query) == (f"{field}.input", "TEXT_TOO_LONG")
    with pytest.raises(InvalidArgument) as caught:
        LabelledObjective(labelled("x"), classifier.tokenizer, ("x", "x"), "models/m")
    assert caught.value.reason == "LABEL_AMBIGUOUS"
    with pytest.raises(InvalidArgument, match="label is not one of the labels of models/m: a, b"):
        LabelledObjective(labelled("x"), classifier.tokenizer, ("a", "b"), "models/m")


def test_labels_that_are_not_finite_are_refused(classifier: Subject) -> None:
    for query in (labelled(0), DivergenceQuery(INPUTS[:1], truncate=False)):
        with pytest.raises(FailedPrecondition):
            build(classifier, query).measure([np.array([0, math.inf, 0], dtype=np.float32)])


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_values_that_are_not_finite_are_refused(classifier: Subject, value: float) -> None:
    plan = PredictValuesPlan(ClassifyQuery(INPUTS[:1], truncate=False), classifier.tokenizer)
    assert plan.values([np.array([1.5], dtype=np.float32)]) == [1.5]
    with pytest.raises(FailedPrecondition):
        plan.values([np.array([value], dtype=np.float32)])


def test_classify(classifier: Subject) -> None:
    plan = ClassifyPlan(ClassifyQuery(INPUTS, truncate=False), classifier.tokenizer, classifier.encoder.shape.labels)
    scores = run_rows(classifier.encoder, plan.rows)
    ranked, probabilities = plan.answer(scores)
    assert tuple(plan.labels) == tuple(LABELS[:3])
    assert probabilities.sum(axis=1) == pytest.approx(1)
    for order, row, logits, logs in zip(ranked, probabilities, scores, expected_logs(classifier), strict=True):
        assert sorted(order.tolist()) == [0, 1, 2]
        assert row[order].tolist() == sorted(row, reverse=True)
        assert row == pytest.approx([math.exp(log) for log in logs], abs=1e-4)
        assert logits - logits[0] == pytest.approx(np.log(row) - math.log(row[0]), abs=1e-5)
    for tokenized, (text, pair) in zip(plan.texts, INPUTS, strict=True):
        assert (len(tokenized), tokenized.truncated) == (len(classifier.tokenizer.encode(text, pair)), 0)


def test_classified_texts_are_cut_if_asked(classifier: Subject) -> None:
    query = ClassifyQuery((("cat " * 100, None),), truncate=True)
    plan = ClassifyPlan(query, classifier.tokenizer, classifier.encoder.shape.labels)
    (tokenized,) = plan.texts
    assert len(tokenized) == 64 == len(plan.rows[0][0])
    assert tokenized.truncated == len(classifier.tokenizer.encode("cat " * 100)) - 64
    with pytest.raises(InvalidArgument) as caught:
        ClassifyPlan(ClassifyQuery(query.inputs, truncate=False), classifier.tokenizer, ("a", "b", "c"))
    assert (caught.value.field, caught.value.reason) == ("inputs[0]", "TEXT_TOO_LONG")
