"""Labels that objectives are refused for, and values that are no numbers."""

from pathlib import Path

import pytest
from bertscope_service.analyses.objectives.labelled import LabelledObjective, LabelledQuery, LabelledText
from bertscope_service.errors import InvalidArgument

from tests.support.reference import Subject
from tests.support.tiny import SENTENCES, write_checkpoint


@pytest.fixture(scope="module", params=["bert"])
def classifier(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    folder: Path = tmp_path_factory.mktemp("classifiers") / request.param
    return Subject(request.param, write_checkpoint(request.param, folder, labels=3))


INPUTS = (("The cat sat.", None), ("Paris is old.", "The café in Zürich."), (SENTENCES[-1], None), ("No!", None))


def labelled(*golds: str | int) -> LabelledQuery:
    texts = tuple(LabelledText(*entry, gold) for entry, gold in zip(INPUTS, golds, strict=False))
    return LabelledQuery(texts, truncate=False)


def test_labels_that_several_classes_or_none_have(classifier: Subject) -> None:
    with pytest.raises(InvalidArgument) as caught:
        LabelledObjective(labelled("x"), classifier.tokenizer, ("x", "x"), "models/m")
    assert caught.value.reason == "LABEL_AMBIGUOUS"
    with pytest.raises(InvalidArgument, match="label is not one of the labels of models/m: a, b"):
        LabelledObjective(labelled("x"), classifier.tokenizer, ("a", "b"), "models/m")
