# Generated from answer_uniform.py by `make client`. Do not edit: change that file, or the contract.
"""Builds the requests for answers to questions: `answer_questions`."""

from __future__ import annotations

from collections.abc import Iterable

from bertscope.v1 import question_answering_pb2
from bertscope.values import validation
from bertscope.values.all_interventions import Interventions, intervention_fields
from bertscope.values.models import Model, model_name


def answer_questions_request(
    *,
    model: str | Model | None = None,
    best: int | None = None,
    max_answer_tokens: int | None = None,
    stride: int | None = None,
    interventions: Interventions = (),
    reference_texts: str | Iterable[str] = (),
) -> question_answering_pb2.AnswerQuestionsRequest:
    """Returns the request of AnswerQuestions, without its items."""
    return question_answering_pb2.AnswerQuestionsRequest(
        model=model_name("model", model),
        best=None if best is None else validation.positive("best", best),
        max_answer_tokens=None if max_answer_tokens is None else validation.positive("max_answer_tokens", max_answer_tokens),
        stride=None if stride is None else validation.positive("stride", stride),
        **intervention_fields(interventions),
        reference_texts=validation.texts("reference_texts", reference_texts),
    )
