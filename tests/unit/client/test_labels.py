"""Answers, values and tags: requests as they are built, replies as they are read, tables, rankings, and broken replies."""

from typing import Any

import bertscope
from bertscope.questions.labels.answers import asked_questions, read_answered_questions
from bertscope.questions.labels.classification import asked_words, read_predicted_values, read_tagged_texts
from bertscope.v1 import classification_pb2 as classification
from bertscope.v1 import common_pb2
from bertscope.v1 import question_answering_pb2 as answering
from bertscope.v1.question_answering_pb2 import AnswerQuestionsRequest
from bertscope.values.messages import with_items
from bertscope.values.requests import request_of
from bertscope_workbench.analyses.ranking import query_pairs, ranked_candidates
from bertscope_workbench.command.commands.answer import fields, print_answer
from bertscope_workbench.command.options.texts import answers_document

from tests.support.broken_replies import refusals
from tests.support.stored_outputs import printed

PASSAGE = "東京 is large 😀 [bold]."


ANSWERED = answering.AnswerQuestionsResponse(
    results=[
        answering.AnsweredQuestion(
            spans=[
                answering.AnswerSpan(start=0, end=2, score=2.5, probability=0.75),
                answering.AnswerSpan(start=12, end=13, score=1.0, probability=0.125),
            ],
            no_answer_score=-3.5,
            no_answer_probability=0.02,
            windows=2,
            tokens=12,
        )
    ]
)


def asked(questions: Any) -> answering.AnswerQuestionsRequest:
    return with_items(request_of(AnswerQuestionsRequest, model=None), "inputs", asked_questions(questions).items)


def test_questions(stored) -> None:
    stored(
        one=asked(("Where?", PASSAGE)),
        many=asked(iter([("a", "b"), ["c", "d"]])),
        refused=[
            lambda: asked("Where?"),
            lambda: asked(["Where?"]),
            lambda: asked(("Where?", "a", "b")),
            lambda: asked(("Where?", 3)),
            lambda: asked([("a", "b"), (None, "b")]),
        ],
    )


def test_answers(stored) -> None:
    given = asked(("Where?", PASSAGE)).inputs
    (answer,) = found = read_answered_questions(given, ANSWERED)
    stored(
        answer=answer,
        answer_or_none=[answer.answer_or_none(), answer.answer_or_none(-4)],
        row=answer.to_row(),
        frame=found.to_pandas(),
        printed=printed(print_answer, answer),
        document=answers_document([answer], fields),
        broken=refusals(lambda messages: read_answered_questions(given, *messages), ANSWERED),
    )


def reply_of_values(*values: float) -> classification.PredictValuesResponse:
    results = [classification.PredictedValue(value=value, tokens=5, truncated_tokens=1) for value in values]
    return classification.PredictValuesResponse(results=results)


def test_values_and_their_ranking(stored) -> None:
    pairs = query_pairs("q", ["low", "high", "same"])
    inputs = [common_pb2.TextInput(text=text, text_pair=pair) for text, pair in pairs]
    found = read_predicted_values(inputs, reply_of_values(-1.5, 2.0, -1.5))
    ranked = ranked_candidates(found)
    stored(
        pairs=pairs,
        value=found[1],
        row=found[0].to_row(),
        frame=found.to_pandas(),
        ranked=ranked,
        alone=read_predicted_values([common_pb2.TextInput(text="a")], reply_of_values(0))[0],
        broken=lambda: read_predicted_values([common_pb2.TextInput(text="a")], reply_of_values()),
    )


WORDS = bertscope.UnlabelledText("The cat sat.", [(4, 7), (8, 11)])
LABELS = bertscope.ProbeText("The cat sat.", [("NOUN", 4, 7), ("VERB", 8, 11)])


def span(start: int, end: int, segment: int = 0) -> common_pb2.CharacterSpan:
    return common_pb2.CharacterSpan(start=start, end=end, segment=segment)


def reply(*words: classification.TaggedWord, scheme: int = 2) -> classification.ClassifyTokensResponse:
    mention = classification.Mention(type="LOC", span=span(4, 11), probability=0.5)
    result = classification.TaggedText(words=words, mentions=[mention], tokens=6, truncated_tokens=1)
    return classification.ClassifyTokensResponse(results=[result], scheme=scheme)


def test_words(stored) -> None:
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
    given = list(asked_words(WORDS).items)
    label = classification.LabelPrediction(label="B-LOC", index=1, probability=0.75, logit=2)
    good = reply(classification.TaggedWord(span=span(4, 7), labels=[label]), classification.TaggedWord(span=span(8, 11)))
    (found,) = read_tagged_texts(given, good)
    stored(
        text=found,
        row=found.to_row(),
        frame=bertscope.TaggedTexts([found]).to_pandas(),
        broken=refusals(lambda messages: list(read_tagged_texts(given, *messages)), good),
        in_a_third_text=lambda: list(read_tagged_texts(given, reply(*[classification.TaggedWord(span=span(0, 1, 2))] * 2))),
    )
