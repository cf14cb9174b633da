# Generated from bertscope/questions/labels/answer_calls.py. Do not edit: change that file, and run `make client`.
# Generated from answer_uniform.py by `make client`. Do not edit: change that file, or the contract.
"""Makes the calls for answers to questions: `answer_questions`."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from functools import partial

from bertscope.client.many_texts import ManyTexts
from bertscope.client.streams import whole
from bertscope.questions.labels.answers import (
    AnsweredQuestion,
    AnsweredQuestions,
    Questions,
    asked_questions,
    question_work,
    read_answered_questions,
)
from bertscope.rpc.splitting import OnRejected
from bertscope.v1 import question_answering_pb2
from bertscope.values.all_interventions import Interventions
from bertscope.values.messages import with_items
from bertscope.values.models import Model
from bertscope.values.requests import request_of


class AnswerCalls(ManyTexts):
    """The methods of `Client` that answer questions."""

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
    ) -> Generator[AnsweredQuestion, None, None]:
        """Finds the spans of passages that answer questions best, with a model that was fine-tuned for it (on SQuAD, say).

        A passage that is longer than the model reads is read in windows. Raises Unimplemented for a model without such a head.

        Arguments:
            questions: A tuple (question, passage), or any number of them, also from a generator.
            model: The model's name or a `Model`; None means the server's default model.
            best: Number of spans to return for each question, 1 to 100; None means 3. There are fewer if the passage has fewer.
            max_answer_tokens: Most tokens of a span, 1 to 512; None means 30.
            stride: Number of passage tokens between the beginnings of two windows, at least 1 and at most the passage tokens
                that one window holds beside the question; None means 128, or half of what a window holds where that is less.
            interventions: Changes of heads or states while the model runs.
            reference_texts: Texts that means, and strengths of additions, are taken over: 1 to 10,000, if interventions need
                them.
            on_rejected: Called with the index and the error of each item that the server rejects (too long, empty), which is
                left out; without it the first error is raised.
            timeout: Seconds for each call to the server; None means the client's.
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
