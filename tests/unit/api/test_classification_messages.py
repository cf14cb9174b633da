"""What models must have, and requests and replies of ClassificationService."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from bertscope.v1 import classification_pb2 as classification
from bertscope.v1 import common_pb2
from bertscope_service.analyses.classification import ClassifyPlan, ClassifyQuery
from bertscope_service.analyses.masked_rows import Scoring
from bertscope_service.analyses.objectives.cloze_prompts import ClozePromptsQuery
from bertscope_service.analyses.objectives.divergence import DivergenceQuery
from bertscope_service.analyses.objectives.labelled import LabelledQuery, LabelledText
from bertscope_service.analyses.objectives.masked_lm import MaskedLmQuery
from bertscope_service.analyses.objectives.minimal_pairs import MinimalPairsQuery
from bertscope_service.api.checks import read_texts
from bertscope_service.api.classification import render_classify
from bertscope_service.api.field_checks import check_fields
from bertscope_service.api.limits import RequestLimits
from bertscope_service.api.requirements import require_classification, require_objective
from bertscope_service.encoders.base import Capabilities, Shape
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import InvalidArgument, Unsupported

LIMITS = RequestLimits(4, 20, 1000, 1_000_000)
TEXT = common_pb2.TextInput(text="a")
LOSS = MaskedLmQuery(("a",), 0, 0.15, truncate=False)
PAIRS = MinimalPairsQuery((("a", "b"),), Scoring.WITHIN_WORD, truncate=False)


def with_shape(**changes: Any) -> Any:
    fields = {"masked_lm": True, "labels": (), "mask_id": 4} | changes
    capabilities = Capabilities(masked_lm=fields["masked_lm"], classification=bool(fields["labels"]))
    encoder = SimpleNamespace(shape=Shape("bert", 3, 2, 8, 100, 16, 1000, fields["labels"]), capabilities=capabilities)
    tokenizer = SimpleNamespace(mask_id=fields["mask_id"])
    return SimpleNamespace(name="models/m", encoder=encoder, tokenizer=tokenizer)


HEADLESS, CLASSIFIER = {"masked_lm": False}, {"masked_lm": False, "labels": ("a", "b")}
DIVERGENCE = DivergenceQuery((("a", None),), truncate=False)
LABELLED = LabelledQuery((LabelledText("a", None, 0),), truncate=False)


@pytest.mark.parametrize(
    ("changes", "query", "reason"),
    [
        (HEADLESS, LOSS, "NO_MASKED_LM_HEAD"),
        (CLASSIFIER, PAIRS, "NO_MASKED_LM_HEAD"),
        (CLASSIFIER, ClozePromptsQuery((), skip_multi_piece=False, truncate=False), "NO_MASKED_LM_HEAD"),
        ({"mask_id": None}, LOSS, "NO_MASK_TOKEN"),
        ({}, LABELLED, "NO_CLASSIFICATION_HEAD"),
        (HEADLESS, DIVERGENCE, "NO_MASKED_LM_HEAD"),
    ],
)
def test_models_without_what_an_objective_needs(changes: dict[str, Any], query: Any, reason: str) -> None:
    with pytest.raises(Unsupported) as caught:
        require_objective(with_shape(**changes), query)
    assert caught.value.reason == reason
    assert "models/m" in caught.value.message


def test_models_with_what_an_objective_needs() -> None:
    for query in (LOSS, PAIRS, DIVERGENCE):
        require_objective(with_shape(), query)
    for query in (LABELLED, DIVERGENCE):
        require_objective(with_shape(**CLASSIFIER), query)
    require_classification(with_shape(**CLASSIFIER))


def test_classify() -> None:
    request = classification.ClassifyRequest(inputs=[TEXT, common_pb2.TextInput(text="a", text_pair="b")], truncate=True)
    assert read_texts(request.inputs) == (("a", None), ("a", "b"))


@pytest.mark.parametrize(
    ("inputs", "field", "words"),
    [
        ([], "inputs", "give at least one text"),
        ([TEXT] * 5, "inputs", "takes 4; send them in parts"),
        ([TEXT, common_pb2.TextInput()], "inputs[1].text", "write some text"),
        ([common_pb2.TextInput(text="a", text_pair="x" * 21)], "inputs[0].text_pair", "shorten it"),
    ],
)
def test_bad_classify(inputs: Any, field: str, words: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        check_fields(classification.ClassifyRequest(inputs=inputs), LIMITS)
    assert caught.value.field == field
    assert words in caught.value.message


class Read:
    """A text of five tokens, which was cut by two."""

    sequence = TokenSequence([1] * 5, [0] * 5)
    truncated = 2

    def __len__(self) -> int:
        return 5


def test_classified_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    provenance = common_pb2.Provenance(model="models/m")
    monkeypatch.setattr("bertscope_service.api.classification.render_provenance", lambda _: provenance)
    model: Any = SimpleNamespace(name="models/m")
    monkeypatch.setattr("bertscope_service.analyses.classification.read_inputs", lambda *_, **__: [Read()])
    plan = ClassifyPlan(ClassifyQuery((("a", None),), truncate=True), SimpleNamespace(), ("a", "b"))  # type: ignore[arg-type]
    found = render_classify(plan, [np.array([0, math.log(3)], dtype=np.float32)], model)
    (text,) = found.results
    assert [(entry.label, entry.index, entry.probability, entry.logit) for entry in text.labels] == [
        ("b", 1, pytest.approx(0.75), pytest.approx(math.log(3))),
        ("a", 0, pytest.approx(0.25), 0.0),
    ]
    assert (text.tokens, text.truncated_tokens, found.provenance) == (5, 2, provenance)
