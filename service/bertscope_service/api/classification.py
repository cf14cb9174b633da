"""The ClassificationService."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from bertscope.v1 import classification_pb2, classification_pb2_grpc, common_pb2
from numpy.typing import NDArray

from bertscope_service.analyses.classification import ClassifyPlan, ClassifyQuery, PredictValuesPlan
from bertscope_service.analyses.label_schemes import Scheme
from bertscope_service.analyses.token_classification import (
    ClassifyTokensPlan,
    ClassifyTokensQuery,
    ReadWords,
    TaggedInput,
    TaggedWords,
)
from bertscope_service.analyses.words import Span
from bertscope_service.api.answer import Backend, Context, answer
from bertscope_service.api.checks import read_text, read_texts
from bertscope_service.api.enums import numbers
from bertscope_service.api.field_checks import CLASSIFY_TOKENS_TOP_K
from bertscope_service.api.label_predictions import render_labels
from bertscope_service.api.limits import RequestLimits
from bertscope_service.api.provenance import render_provenance
from bertscope_service.api.requirements import require_labels, require_regression, require_token_classification
from bertscope_service.api.spans import check_apart, check_span
from bertscope_service.errors import InvalidArgument
from bertscope_service.models.loaded import LoadedModel

SCHEMES = numbers(Scheme, classification_pb2.LabelScheme, "LABEL_SCHEME_")


class ClassificationServicer(classification_pb2_grpc.ClassificationServiceServicer):
    """Serves ClassificationService: queries models with a head that classifies texts or tokens, or gives texts a value."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def Classify(
        self, request: classification_pb2.ClassifyRequest, context: Context
    ) -> classification_pb2.ClassifyResponse:
        return await answer(self._backend, request, context, plan_classify, render_classify, model=request.model)

    async def ClassifyTokens(
        self, request: classification_pb2.ClassifyTokensRequest, context: Context
    ) -> classification_pb2.ClassifyTokensResponse:
        return await answer(self._backend, request, context, plan_tokens, render_tokens, model=request.model)

    async def PredictValues(
        self, request: classification_pb2.PredictValuesRequest, context: Context
    ) -> classification_pb2.PredictValuesResponse:
        return await answer(self._backend, request, context, plan_values, render_values, model=request.model)


def plan_classify(request: classification_pb2.ClassifyRequest, model: LoadedModel, limits: RequestLimits) -> ClassifyPlan:
    """Plans the answer. Raises InvalidArgument, and Unsupported for a model without labels."""
    require_labels(model)
    query = ClassifyQuery(read_texts(request.inputs), request.truncate)
    several, shape = model.encoder.capabilities.multi_label, model.encoder.shape
    return ClassifyPlan(query, model.tokenizer, shape.head_labels if several else shape.labels, multi_label=several)


def render_classify(
    plan: ClassifyPlan, scores: Sequence[NDArray[np.float32]], model: LoadedModel
) -> classification_pb2.ClassifyResponse:
    ranked, probabilities = plan.answer(scores)
    own = [np.take_along_axis(values, ranked, axis=1) for values in (probabilities, np.array(scores, dtype=np.float64))]
    response = classification_pb2.ClassifyResponse(provenance=render_provenance(model), multi_label=plan.multi_label)
    rendered = render_labels(classification_pb2.ClassifiedText.LABELS_FIELD_NUMBER, plan.labels, ranked, *own)
    for labels, sequence, truncated in zip(rendered, plan.texts.sequences, plan.texts.truncated, strict=True):
        response.results.add(tokens=len(sequence), truncated_tokens=truncated).MergeFromString(labels)
    return response


def plan_values(
    request: classification_pb2.PredictValuesRequest, model: LoadedModel, limits: RequestLimits
) -> PredictValuesPlan:
    """Plans the answer. Raises InvalidArgument, and Unsupported for a model that gives no value."""
    require_regression(model)
    return PredictValuesPlan(ClassifyQuery(read_texts(request.inputs), request.truncate), model.tokenizer)


def render_values(
    plan: PredictValuesPlan, scores: Sequence[NDArray[np.float32]], model: LoadedModel
) -> classification_pb2.PredictValuesResponse:
    return classification_pb2.PredictValuesResponse(
        results=[
            classification_pb2.PredictedValue(value=value, tokens=len(sequence), truncated_tokens=truncated)
            for sequence, truncated, value in zip(plan.texts.sequences, plan.texts.truncated, plan.values(scores), strict=True)
        ],
        provenance=render_provenance(model),
    )


def plan_tokens(
    request: classification_pb2.ClassifyTokensRequest, model: LoadedModel, limits: RequestLimits
) -> ClassifyTokensPlan:
    """Plans the answer. Raises InvalidArgument, and Unsupported for a model that gives tokens no labels."""
    require_token_classification(model)
    inputs = tuple(_tagged_input(given, f"inputs[{index}]") for index, given in enumerate(request.inputs))
    labels, top_k = model.encoder.shape.head_labels, request.top_k or CLASSIFY_TOKENS_TOP_K
    if top_k > len(labels):
        message = f"top_k is {top_k}; ask for 1 to {len(labels)}, the number of labels"
        raise InvalidArgument("top_k", message, "TOP_K_OUT_OF_RANGE")
    return ClassifyTokensPlan(ClassifyTokensQuery(inputs, top_k, request.truncate), model.tokenizer, labels)


def _tagged_input(given: classification_pb2.TaggedInput, field: str) -> TaggedInput:
    texts = read_text(given.input)
    words = tuple(check_span(word, f"{field}.words[{index}]", texts) for index, word in enumerate(given.words))
    check_apart(words, f"{field}.words")
    return TaggedInput(f"{field}.input", texts, words)


def render_tokens(
    plan: ClassifyTokensPlan, scores: Sequence[NDArray[np.float32]], model: LoadedModel
) -> classification_pb2.ClassifyTokensResponse:
    return classification_pb2.ClassifyTokensResponse(
        results=[
            _render_words(plan.labels, text, tagged) for text, tagged in zip(plan.texts, plan.answers(scores), strict=True)
        ],
        scheme=SCHEMES[plan.scheme],
        provenance=render_provenance(model),
    )


def _render_words(labels: Sequence[str], text: ReadWords, tagged: TaggedWords) -> classification_pb2.TaggedText:
    rendered = render_labels(
        classification_pb2.TaggedWord.LABELS_FIELD_NUMBER, labels, tagged.ranked, tagged.probabilities, tagged.logits
    )
    words = [classification_pb2.TaggedWord(span=_render_span(word)) for word in text.words]
    for word, place in zip(words, text.positions, strict=True):
        if place is not None:
            word.MergeFromString(next(rendered))
    return classification_pb2.TaggedText(
        words=words,
        mentions=[
            classification_pb2.Mention(type=one.type, span=_render_span(one.span), probability=one.probability)
            for one in tagged.mentions
        ],
        tokens=len(text.text),
        truncated_tokens=text.text.truncated,
    )


def _render_span(span: Span) -> common_pb2.CharacterSpan:
    return common_pb2.CharacterSpan(start=span.start, end=span.end, segment=span.segment)
