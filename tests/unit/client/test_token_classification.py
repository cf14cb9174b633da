"""Labels of words: requests, replies, and replies that break the contract."""

import bertscope
from bertscope.questions.labels.token_classification import asked_words, read_tagged_texts
from bertscope.v1 import classification_pb2 as classification
from bertscope.v1 import common_pb2

from tests.support.stored_outputs import refusals

WORDS = bertscope.UnlabelledText("The cat sat.", [(4, 7), (8, 11)])
LABELS = bertscope.ProbeText("The cat sat.", [("NOUN", 4, 7), ("VERB", 8, 11)])


def span(start: int, end: int, segment: int = 0) -> common_pb2.CharacterSpan:
    return common_pb2.CharacterSpan(start=start, end=end, segment=segment)


def reply(*words: classification.TaggedWord, scheme: int = 2) -> classification.ClassifyTokensResponse:
    mention = classification.Mention(type="LOC", span=span(4, 11), probability=0.5)
    result = classification.TaggedText(words=words, mentions=[mention], tokens=6, truncated_tokens=1)
    return classification.ClassifyTokensResponse(results=[result], scheme=scheme)


def test_requests(stored) -> None:
    given = "a", ("a", "b"), ["a", ("b", "c")], iter(["a"]), WORDS, [LABELS, "a"]
    stored(
        inputs=[list(asked_words(each).items) for each in given],
        refused=[
            lambda: asked_words(["a", 1]),
            lambda: asked_words(3),
            lambda: asked_words(bertscope.UnlabelledText("a b", [((0, 1), (2, 3))])),
        ],
    )


def test_tags(stored) -> None:
    asked = list(asked_words(WORDS).items)
    label = classification.LabelPrediction(label="B-LOC", index=1, probability=0.75, logit=2)
    good = reply(classification.TaggedWord(span=span(4, 7), labels=[label]), classification.TaggedWord(span=span(8, 11)))
    (found,) = read_tagged_texts(asked, good)
    stored(
        text=found,
        row=found.to_row(),
        frame=bertscope.TaggedTexts([found]).to_pandas(),
        broken=refusals(lambda messages: list(read_tagged_texts(asked, *messages)), good),
        in_a_third_text=lambda: list(read_tagged_texts(asked, reply(*[classification.TaggedWord(span=span(0, 1, 2))] * 2))),
    )
