"""Requests and replies of ClassificationService."""

from __future__ import annotations

from collections.abc import Sequence

from bertscope.v1 import classification_pb2

from bertscope_service.analyses.classification import ClassifiedText, ClassifyQuery
from bertscope_service.loaded import LoadedModel
from bertscope_service.messages.common import check_input, check_texts, render_provenance
from bertscope_service.messages.limits import RequestLimits


def parse_classify(request: classification_pb2.ClassifyRequest, limits: RequestLimits) -> ClassifyQuery:
    """Raises InvalidArgument."""
    check_texts(request.inputs, "inputs", limits)
    inputs = tuple(check_input(entry, f"inputs[{index}]", limits) for index, entry in enumerate(request.inputs))
    return ClassifyQuery(inputs, request.truncate)


def render_classify(results: Sequence[ClassifiedText], model: LoadedModel) -> classification_pb2.ClassifyResponse:
    return classification_pb2.ClassifyResponse(
        results=[_render_text(result) for result in results], provenance=render_provenance(model)
    )


def _render_text(result: ClassifiedText) -> classification_pb2.ClassifiedText:
    labels = [
        classification_pb2.LabelPrediction(
            label=prediction.label, index=prediction.index, probability=prediction.probability, logit=prediction.logit
        )
        for prediction in result.labels
    ]
    return classification_pb2.ClassifiedText(labels=labels, tokens=result.tokens, truncated_tokens=result.truncated)
