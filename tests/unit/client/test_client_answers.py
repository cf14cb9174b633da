"""The request of AnswerQuestions as it is built, its reply as it is read, its table, and its output."""

import io
from typing import Any

import bertscope
import pytest
from bertscope.questions.labels.answer_requests import answer_questions_request
from bertscope.questions.labels.answers import asked_questions, read_answered_questions
from bertscope.v1 import question_answering_pb2 as answering
from bertscope.values.messages import with_items
from bertscope_workbench.command.commands.answer import fields, print_answer
from bertscope_workbench.command.options.texts import answers_document
from rich.console import Console

PASSAGE = "東京 is large 😀 [bold]."
SPAN = answering.AnswerSpan(start=0, end=2, score=2.5, probability=0.75)
OTHER = answering.AnswerSpan(start=12, end=13, score=1.0, probability=0.125)


def request(questions: Any = ("Where?", PASSAGE), **arguments: Any) -> answering.AnswerQuestionsRequest:
    defaults = {
        "model": None,
        "best": None,
        "max_answer_tokens": None,
        "stride": None,
        "interventions": (),
        "reference_texts": (),
    }
    return with_items(answer_questions_request(**(defaults | arguments)), "inputs", asked_questions(questions).items)


def read(*spans: answering.AnswerSpan, results: int = 1) -> bertscope.AnsweredQuestions:
    result = answering.AnsweredQuestion(spans=spans, no_answer_score=-3.5, no_answer_probability=0.02, windows=2, tokens=12)
    return read_answered_questions(request().inputs, answering.AnswerQuestionsResponse(results=[result] * results))


def test_requests() -> None:
    untouched = request()
    assert [untouched.HasField(name) for name in ("best", "max_answer_tokens", "stride")] == [False] * 3
    assert [(one.question, one.passage) for one in untouched.inputs] == [("Where?", PASSAGE)]
    many = request(iter([("a", "b"), ["c", "d"]]), best=1, max_answer_tokens=7, stride=9, interventions=bertscope.zero(1))
    assert [(one.question, one.passage) for one in many.inputs] == [("a", "b"), ("c", "d")]
    assert (many.best, many.max_answer_tokens, many.stride, many.interventions[0].layer) == (1, 7, 9, 1)


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("best", {"best": 0}),
        ("max_answer_tokens", {"max_answer_tokens": 1.5}),
        ("stride", {"stride": -1}),
        ("questions", {"questions": "Where?"}),
        ("inputs[0]", {"questions": ["Where?"]}),
        ("inputs[0]", {"questions": ("Where?", "a", "b")}),
        ("inputs[0].passage", {"questions": ("Where?", 3)}),
        ("inputs[1].question", {"questions": [("a", "b"), (None, "b")]}),
    ],
)
def test_what_can_not_be_sent(field: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(bertscope.InvalidArgument) as caught:
        request(**arguments)
    assert [violation.field for violation in caught.value.field_violations] == [field]


def test_answers() -> None:
    (answer,) = read(SPAN, OTHER)
    assert [(span.text, span.start, span.end) for span in answer.spans] == [("東京", 0, 2), ("😀", 12, 13)]
    assert (answer.question, answer.passage, answer.answer, answer.windows, answer.tokens) == ("Where?", PASSAGE, "東京", 2, 12)
    assert [answer.answer_or_none(), answer.answer_or_none(-4)] == ["東京", None]
    assert len(repr(answer)) < 350
    row = answer.to_row()
    assert (row["predicted_answer"], row["starts"], row["no_answer_score"]) == ("東京", [0, 12], -3.5)
    table = read(SPAN, OTHER).to_pandas()
    assert list(table["answer"]) == list(answer.to_pandas()["answer"]) == ["東京", "😀"]
    assert list(table["order"]) == [1, 2]


@pytest.mark.parametrize(
    ("spans", "results", "message"),
    [
        ([SPAN], 2, "2 of 1"),
        ([], 1, "without a span"),
        ([answering.AnswerSpan(start=2, end=2)], 1, "not in the passage"),
        ([answering.AnswerSpan(start=2, end=99)], 1, "not in the passage"),
    ],
)
def test_replies_that_break_the_contract(spans: list[answering.AnswerSpan], results: int, message: str) -> None:
    with pytest.raises(bertscope.InvalidReply, match=message):
        read(*spans, results=results)


def test_output() -> None:
    (answer,) = read(SPAN, OTHER)
    stream = io.StringIO()
    print_answer(Console(file=stream, width=100, markup=False, emoji=False, highlight=False), answer)
    lines = stream.getvalue().splitlines()
    assert "Where? / 東京 is large 😀 [bold]." in lines[0]
    assert [words for line in lines if "0.7500" in line for words in line.split()][:2] == ["東京", "0-2"]
    assert any("(no answer)" in line and "-1.000" in line for line in lines)
    assert "read in 2 windows" in lines[-1]
    (result,) = answers_document([answer], fields)["results"]
    assert "passage" not in result
    assert result["spans"][1]["text"] == "😀"
