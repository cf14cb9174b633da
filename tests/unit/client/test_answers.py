"""The request of AnswerQuestions as it is built, its reply as it is read, its table, and its output."""

from typing import Any

from bertscope.questions.labels.answer_requests import answer_questions_request
from bertscope.questions.labels.answers import asked_questions, read_answered_questions
from bertscope.v1 import question_answering_pb2 as answering
from bertscope.values.messages import with_items
from bertscope_workbench.command.commands.answer import fields, print_answer
from bertscope_workbench.command.options.texts import answers_document

from tests.support.stored_outputs import printed, refusals

PASSAGE = "東京 is large 😀 [bold]."


REPLY = answering.AnswerQuestionsResponse(
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
    return with_items(answer_questions_request(model=None), "inputs", asked_questions(questions).items)


def test_requests(stored) -> None:
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
    (answer,) = found = read_answered_questions(given, REPLY)
    stored(
        answer=answer,
        answer_or_none=[answer.answer_or_none(), answer.answer_or_none(-4)],
        shown=repr(answer),
        row=answer.to_row(),
        frame=found.to_pandas(),
        printed=printed(print_answer, answer),
        document=answers_document([answer], fields),
        broken=refusals(lambda messages: read_answered_questions(given, *messages), REPLY),
    )
