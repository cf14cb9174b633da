"""Labels of words, against plain transformers, one text at a time."""

from pathlib import Path

import numpy as np
import pytest
from bertscope_service.analyses.token_classification import ClassifyTokensPlan, ClassifyTokensQuery, TaggedInput
from bertscope_service.analyses.words import Span

from tests.support.reference import Subject
from tests.support.tiny import TAGS, write_checkpoint


@pytest.fixture(scope="module", params=["bert", "modernbert"])
def tagger(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    folder: Path = tmp_path_factory.mktemp("taggers") / request.param
    return Subject(request.param, write_checkpoint(request.param, folder, task="tokens", labels=len(TAGS), names=TAGS))


def plan_of(tagger: Subject, *inputs: TaggedInput, top_k: int = len(TAGS), truncate: bool = False) -> ClassifyTokensPlan:
    return ClassifyTokensPlan(ClassifyTokensQuery(inputs, top_k, truncate), tagger.tokenizer, tagger.encoder.shape.head_labels)


def test_marked_words(tagger: Subject) -> None:
    text, pair = "Paris is unbelievable.", "The cat sat."
    words = (Span(9, 22, 0), Span(0, 5, 0), Span(0, 3, 1), Span(5, 6, 0))
    plan = plan_of(tagger, TaggedInput("inputs[0].input", (text, pair), words), top_k=1)
    (read,) = plan.texts
    assert read.words == words
    tokens = read.text.pieces(tagger.tokenizer)
    assert [None if place is None else (tokens[place].start, tokens[place].segment) for place in read.positions] == [
        (9, 0),
        (0, 0),
        (0, 1),
        None,
    ]
    # A word without a piece parts what would be one mention; words join in the order of the text, not of the request.
    gold = np.full((3, len(TAGS)), -9.0, dtype=np.float32)
    gold[0, TAGS.index("I-PER")] = gold[1, TAGS.index("B-PER")] = gold[2, TAGS.index("I-PER")] = 9
    (tagged,) = plan.answers([gold])
    assert [(one.type, one.span) for one in tagged.mentions] == [
        ("PER", Span(0, 5, 0)),
        ("PER", Span(9, 22, 0)),
        ("PER", Span(0, 3, 1)),
    ]
    whole = plan_of(tagger, TaggedInput("inputs[0].input", (text, pair), words[:3]), top_k=1)
    (joined,) = whole.answers([gold])
    assert [(one.type, one.span) for one in joined.mentions] == [("PER", Span(0, 22, 0)), ("PER", Span(0, 3, 1))]
    assert joined.mentions[0].probability == pytest.approx(1, abs=1e-5)
