"""What models must have, and requests and replies of ClassificationService."""

from types import SimpleNamespace
from typing import Any

import pytest
from bertscope.v1 import classification_pb2 as classification
from bertscope.v1 import common_pb2
from bertscope_service.analyses.classification import ClassifiedText, LabelPrediction
from bertscope_service.analyses.objectives.cloze_prompts import ClozePromptsQuery
from bertscope_service.analyses.objectives.divergence import DivergenceQuery
from bertscope_service.analyses.objectives.labelled import LabelledQuery, LabelledText
from bertscope_service.analyses.objectives.masked_lm import MaskedLmQuery
from bertscope_service.analyses.objectives.minimal_pairs import MinimalPairsQuery
from bertscope_service.encoders.base import Shape
from bertscope_service.errors import InvalidArgument, Unsupported
from bertscope_service.messages.classification import parse_classify, render_classify
from bertscope_service.messages.limits import RequestLimits
from bertscope_service.servicers.requirements import require_classification, require_objective

LIMITS = RequestLimits(4, 20, 1000, 1_000_000)
TEXT = common_pb2.TextInput(text="a")
LOSS = MaskedLmQuery(("a",), 0, 0.15, truncate=False)
PAIRS = MinimalPairsQuery((("a", "b"),), within_word=True, truncate=False)


def with_shape(**changes: Any) -> Any:
    fields = {"has_masked_lm_head": True, "labels": (), "mask_id": 4} | changes
    shape = Shape("bert", 3, 2, 8, 100, 16, 1000, fields["has_masked_lm_head"], fields["labels"])
    tokenizer = SimpleNamespace(mask_id=fields["mask_id"])
    return SimpleNamespace(name="models/m", encoder=SimpleNamespace(shape=shape), tokenizer=tokenizer)


HEADLESS, CLASSIFIER = {"has_masked_lm_head": False}, {"has_masked_lm_head": False, "labels": ("a", "b")}
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
    query = parse_classify(request, LIMITS)
    assert (query.inputs, query.truncate) == ((("a", None), ("a", "b")), True)


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
        parse_classify(classification.ClassifyRequest(inputs=inputs), LIMITS)
    assert caught.value.field == field
    assert words in caught.value.message


def test_classified_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    provenance = common_pb2.Provenance(model="models/m")
    monkeypatch.setattr("bertscope_service.messages.classification.render_provenance", lambda _: provenance)
    model: Any = SimpleNamespace(name="models/m")
    result = ClassifiedText([LabelPrediction("b", 1, 0.75, 2.0), LabelPrediction("a", 0, 0.25, 1.0)], 5, 2)
    found = render_classify([result], model)
    (text,) = found.results
    assert [(entry.label, entry.index, entry.probability, entry.logit) for entry in text.labels] == [
        ("b", 1, 0.75, 2.0),
        ("a", 0, 0.25, 1.0),
    ]
    assert (text.tokens, text.truncated_tokens, found.provenance) == (5, 2, provenance)
