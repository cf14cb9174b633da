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

        A tuple (question, passage) is one question; a list or a generator of them is any number. `best` spans (3 unless set)
        of at most `max_answer_tokens` (30 unless set) come back for each. A passage that is longer than the model reads is
        read in windows that begin `stride` tokens after one another (128, or half a window if that is less). Raises
        Unimplemented for a model without such a head.

        `on_rejected` takes the index and the error of each question that the server rejects, which is then left out.
        """
