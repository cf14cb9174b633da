# Generated from answer_uniform.py by `make client`. Do not edit: change that file, or the contract.
"""Makes the calls for answers to questions: `answer_questions`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from functools import partial

from bertscope.questions.labels.answers import (
    AnsweredQuestion,
    AnsweredQuestions,
    Questions,
    asked_questions,
    question_work,
    read_answered_questions,
)
from bertscope.rpc.async_many_texts import AsyncManyTexts
from bertscope.rpc.async_streams import whole
from bertscope.rpc.splitting import OnRejected
from bertscope.v1 import question_answering_pb2
from bertscope.values.all_interventions import Interventions
from bertscope.values.messages import with_items
from bertscope.values.models import Model
from bertscope.values.requests import request_of


class AsyncAnswerCalls(AsyncManyTexts):
    """The methods of `AsyncClient` that answer questions."""

    def answer_questions_stream(
        self,
        questions: Questions,
        *,
        model: str | Model | None = None,
        best: int | None = None,
        max_answer_tokens: int | None = None,
        stride: int | None = None,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        on_rejected: OnRejected | None = None,
        timeout: float | None = None,
    ) -> AsyncGenerator[AnsweredQuestion, None]:
        """Finds the spans of passages that answer questions best, with a model that was fine-tuned for it (on SQuAD, say).

        A tuple (question, passage) is one question; a list or a generator of them is any number. `best` spans (3 unless set)
        of at most `max_answer_tokens` (30 unless set) come back for each. A passage that is longer than the model reads is
        read in windows that begin `stride` tokens after one another (128, or half a window if that is less). Raises
        Unimplemented for a model without such a head.

        `on_rejected` takes the index and the error of each question that the server rejects, which is then left out.
        """
        request = request_of(
            question_answering_pb2.AnswerQuestionsRequest,
            model=model,
            best=best,
            max_answer_tokens=max_answer_tokens,
            stride=stride,
            interventions=interventions,
            reference_texts=reference_texts,
        )
        return self._answers(
            asked_questions(questions),
            partial(with_items, request, "inputs"),
            question_answering_pb2.AnswerQuestionsResponse,
            read_answered_questions,
            timeout,
            pace=self._pace_by(question_work, request.reference_texts, timeout),
            on_rejected=on_rejected,
        )

    answer_questions = whole(answer_questions_stream, AnsweredQuestions)
