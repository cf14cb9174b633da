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
from bertscope_service.api.checks import check_text, check_texts
from bertscope_service.api.limits import MAX_ANSWER_TOKENS, MAX_BEST_SPANS, RequestLimits
from bertscope_service.api.provenance import render_provenance
from bertscope_service.api.requirements import require_question_answering
from bertscope_service.errors import InvalidArgument
from bertscope_service.models.loaded import LoadedModel

SearchSettings = answering_pb2.AnswerQuestionsRequest | ablation_pb2.LabelledQuestions
"""A message that says how spans are searched."""

DEFAULT_BEST = 3
DEFAULT_ANSWER_TOKENS = 30


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
    check_texts(request.inputs, "inputs", limits)
    inputs = tuple(check_question(one, f"inputs[{index}]", limits) for index, one in enumerate(request.inputs))
    best = request.best if request.HasField("best") else DEFAULT_BEST
    if not 1 <= best <= MAX_BEST_SPANS:
        message = f"best is {best}; ask for 1 to {MAX_BEST_SPANS} spans"
        raise InvalidArgument("best", message, "BEST_OUT_OF_RANGE", limit=MAX_BEST_SPANS)
    longest = check_answer_tokens(request, "max_answer_tokens")
    return AnswerQuery(inputs, best, longest, check_stride(request, "stride"), limits.tokens)


def check_question(given: answering_pb2.Question, field: str, limits: RequestLimits) -> PassageQuestion:
    """Checks a question and its passage. Returns them."""
    question = check_text(given.question, f"{field}.question", limits)
    return PassageQuestion(question, check_text(given.passage, f"{field}.passage", limits), field)


def check_answer_tokens(given: SearchSettings, field: str) -> int:
    """Returns the most tokens of a span, checked."""
    longest = given.max_answer_tokens if given.HasField("max_answer_tokens") else DEFAULT_ANSWER_TOKENS
    if not 1 <= longest <= MAX_ANSWER_TOKENS:
        message = f"{field} is {longest}; use 1 to {MAX_ANSWER_TOKENS}"
        raise InvalidArgument(field, message, "ANSWER_TOKENS_OUT_OF_RANGE", limit=MAX_ANSWER_TOKENS)
    return longest


def check_stride(given: SearchSettings, field: str) -> int | None:
    """Returns the stride, which each passage may restrict further; None for the usual one."""
    if not given.HasField("stride"):
        return None
    if not given.stride:
        raise InvalidArgument(field, f"{field} is 0; use 1 or more, or leave it out", "STRIDE_OUT_OF_RANGE")
    return given.stride


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
