"""Labels of words: requests, replies, and replies that break the contract."""

from typing import Any

import bertscope
import pytest
from bertscope.questions.labels.classification_requests import classify_tokens_request
from bertscope.questions.labels.token_classification import asked_words, read_tagged_texts
from bertscope.v1 import classification_pb2 as classification
from bertscope.v1 import common_pb2

WORDS = bertscope.UnlabelledText("The cat sat.", [(4, 7), (8, 11)])
LABELS = bertscope.ProbeText("The cat sat.", [("NOUN", 4, 7), ("VERB", 8, 11)])


def span(start: int, end: int, segment: int = 0) -> common_pb2.CharacterSpan:
    return common_pb2.CharacterSpan(start=start, end=end, segment=segment)


@pytest.mark.parametrize(
    ("inputs", "texts", "words"),
    [
        ("a", [("a", None)], [[]]),
        (("a", "b"), [("a", "b")], [[]]),
        (["a", ("b", "c")], [("a", None), ("b", "c")], [[], []]),
        (iter(["a"]), [("a", None)], [[]]),
        (WORDS, [("The cat sat.", None)], [[(4, 7), (8, 11)]]),
        ([LABELS, "a"], [("The cat sat.", None), ("a", None)], [[(4, 7), (8, 11)], []]),
    ],
)
def test_inputs(inputs: Any, texts: list[Any], words: list[Any]) -> None:
    found = list(asked_words(inputs).items)
    assert [(one.input.text, one.input.text_pair if one.input.HasField("text_pair") else None) for one in found] == texts
    assert [[(word.start, word.end) for word in one.words] for one in found] == words


@pytest.mark.parametrize(
    ("message", "build"),
    [
        (r"^inputs\[1\].text", lambda: asked_words(["a", 1])),
        ("^inputs: must be", lambda: asked_words(3)),
        (r"^inputs\[0\]: marks pairs", lambda: asked_words(bertscope.UnlabelledText("a b", [((0, 1), (2, 3))]))),
        ("^top_k", lambda: classify_tokens_request(model=None, top_k=0, interventions=(), reference_texts=(), truncate=False)),
    ],
)
def test_bad_arguments(message: str, build: Any) -> None:
    with pytest.raises(bertscope.InvalidArgument, match=message):
        build()


def reply(*words: classification.TaggedWord, scheme: int = 2) -> classification.ClassifyTokensResponse:
    mention = classification.Mention(type="LOC", span=span(4, 11), probability=0.5)
    result = classification.TaggedText(words=words, mentions=[mention], tokens=6, truncated_tokens=1)
    return classification.ClassifyTokensResponse(results=[result], scheme=scheme)


def test_a_reply() -> None:
    asked = list(asked_words(WORDS).items)
    label = classification.LabelPrediction(label="B-LOC", index=1, probability=0.75, logit=2)
    known, unknown = classification.TaggedWord(span=span(4, 7), labels=[label]), classification.TaggedWord(span=span(8, 11))
    (found,) = read_tagged_texts(asked, reply(known, unknown))
    assert [(word.text, word.label) for word in found.words] == [("cat", "B-LOC"), ("sat", None)]
    assert found.mentions == (bertscope.Mention("LOC", "cat sat", 4, 11, 0, 0.5),)
    assert (found.scheme, found.tokens, found.truncated_tokens, found.text_pair) == ("iob", 6, 1, None)
    assert found.to_row()["labels"] == ["B-LOC", None]
    table = bertscope.TaggedTexts([found]).to_pandas()
    assert table.values.tolist() == [[0, "cat", 4, 7, 0, 1, "B-LOC", 1, 0.75, 2.0]]
    assert list(table.columns) == list(found.to_pandas().columns)
    (newer,) = read_tagged_texts(asked, reply(known, unknown, scheme=99))
    assert newer.scheme == "99"


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (classification.ClassifyTokensResponse(), "0 of 1 texts"),
        (reply(), "0 of 2 words"),
        (reply(*[classification.TaggedWord(span=span(4, 99))] * 2), "after the end"),
        (reply(*[classification.TaggedWord(span=span(0, 1, 2))] * 2), "after the end"),
    ],
)
def test_replies_that_break_the_contract(response: Any, message: str) -> None:
    with pytest.raises(bertscope.InvalidReply, match=message):
        list(read_tagged_texts(list(asked_words(WORDS).items), response))
