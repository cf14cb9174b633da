"""Declares the calls for answers to questions: `answer_questions`."""

from __future__ import annotations

from typing import Protocol

from bertscope.questions.labels.answers import (
    AnsweredQuestion,
    AnsweredQuestions,
    Questions,
    asked_questions,
    question_work,
    read_answered_questions,
)
from bertscope.rpc.uniform import each


class AnswerCalls(Protocol):
    """The methods of `AsyncClient` that answer questions."""

    @each(
        asked_questions,
        read_answered_questions,
        AnsweredQuestions,
        work=question_work,
    )
    def answer_questions(
        self, questions: Questions, *, best: int | None = None, max_answer_tokens: int | None = None, stride: int | None = None
    ) -> AnsweredQuestion:
        """Finds the spans of passages that answer questions best, with a model that was fine-tuned for it (on SQuAD, say).

        A passage that is longer than the model reads is read in windows. Raises Unimplemented for a model without such a head.

        Arguments:
            questions: A tuple (question, passage), or any number of them, also from a generator.
        """
