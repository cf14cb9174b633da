"""The QuestionAnsweringService."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from bertscope.v1 import ablation_pb2, question_answering_pb2_grpc
from bertscope.v1 import question_answering_pb2 as answering_pb2
from numpy.typing import NDArray

from bertscope_service.analyses.passages import PassageQuestion
from bertscope_service.analyses.question_answering import AnswerPlan, AnswerQuery
from bertscope_service.api.answer import Backend, Context, answer
from bertscope_service.api.field_checks import ANSWER_QUESTIONS_BEST, ANSWER_QUESTIONS_MAX_ANSWER_TOKENS
from bertscope_service.api.limits import RequestLimits
from bertscope_service.api.provenance import render_provenance
from bertscope_service.api.requirements import require_question_answering
from bertscope_service.models.loaded import LoadedModel

SearchSettings = answering_pb2.AnswerQuestionsRequest | ablation_pb2.LabelledQuestions
"""A message that says how spans are searched."""


class QuestionAnsweringServicer(question_answering_pb2_grpc.QuestionAnsweringServiceServicer):
    """Serves QuestionAnsweringService: queries models with a question answering head."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def AnswerQuestions(
        self, request: answering_pb2.AnswerQuestionsRequest, context: Context
    ) -> answering_pb2.AnswerQuestionsResponse:
        return await answer(self._backend, request, context, plan_answers, render_answers, model=request.model)


def plan_answers(request: answering_pb2.AnswerQuestionsRequest, model: LoadedModel, limits: RequestLimits) -> AnswerPlan:
    """Plans the answers. Raises InvalidArgument, and Unsupported for a model without a question answering head."""
    require_question_answering(model)
    return AnswerPlan(parse_answers(request, limits), model.tokenizer)


def parse_answers(request: answering_pb2.AnswerQuestionsRequest, limits: RequestLimits) -> AnswerQuery:
    """Converts the request to a query. Raises InvalidArgument."""
    inputs = tuple(read_question(one, f"inputs[{index}]") for index, one in enumerate(request.inputs))
    best = request.best if request.HasField("best") else ANSWER_QUESTIONS_BEST
    return AnswerQuery(inputs, best, read_answer_tokens(request), read_stride(request), limits.tokens)


def read_question(given: answering_pb2.Question, field: str) -> PassageQuestion:
    """Returns a question and its passage."""
    return PassageQuestion(given.question, given.passage, field)


def read_answer_tokens(given: SearchSettings) -> int:
    """Returns the most tokens of a span."""
    return given.max_answer_tokens if given.HasField("max_answer_tokens") else ANSWER_QUESTIONS_MAX_ANSWER_TOKENS


def read_stride(given: SearchSettings) -> int | None:
    """Returns the stride, which each passage may restrict further; None for the usual one."""
    return given.stride if given.HasField("stride") else None


def render_answers(
    plan: AnswerPlan, seen: Sequence[NDArray[np.float32]], model: LoadedModel
) -> answering_pb2.AnswerQuestionsResponse:
    results = [
        answering_pb2.AnsweredQuestion(
            spans=[
                answering_pb2.AnswerSpan(start=span.start, end=span.end, score=span.score, probability=span.probability)
                for span in found.spans
            ],
            no_answer_score=found.no_answer_score,
            no_answer_probability=found.no_answer_probability,
            windows=len(passage.windows),
            tokens=passage.tokens,
        )
        for passage, found in zip(plan.passages, plan.answers(seen), strict=True)
    ]
    return answering_pb2.AnswerQuestionsResponse(results=results, provenance=render_provenance(model))
