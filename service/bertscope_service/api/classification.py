"""The ClassificationService."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from bertscope.v1 import classification_pb2, classification_pb2_grpc
from numpy.typing import NDArray

from bertscope_service.analyses.classification import ClassifyPlan, ClassifyQuery
from bertscope_service.api.answer import Backend, Context, answer
from bertscope_service.api.checks import check_inputs
from bertscope_service.api.limits import RequestLimits
from bertscope_service.api.provenance import render_provenance
from bertscope_service.api.requirements import require_classification
from bertscope_service.models.loaded import LoadedModel


class ClassificationServicer(classification_pb2_grpc.ClassificationServiceServicer):
    """Serves ClassificationService: queries models with a sequence classification head."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def Classify(
        self, request: classification_pb2.ClassifyRequest, context: Context
    ) -> classification_pb2.ClassifyResponse:
        return await answer(self._backend, request, context, plan_classify, render_classify, model=request.model)


def plan_classify(request: classification_pb2.ClassifyRequest, model: LoadedModel, limits: RequestLimits) -> ClassifyPlan:
    """Plans the answer. Raises InvalidArgument, and Unsupported for a model without labels."""
    require_classification(model)
    query = ClassifyQuery(check_inputs(request.inputs, limits), request.truncate)
    return ClassifyPlan(query, model.tokenizer, model.encoder.shape.labels)


def render_classify(
    plan: ClassifyPlan, scores: Sequence[NDArray[np.float32]], model: LoadedModel
) -> classification_pb2.ClassifyResponse:
    ranked, probabilities = plan.answer(scores)
    return classification_pb2.ClassifyResponse(
        results=[
            classification_pb2.ClassifiedText(
                labels=[
                    classification_pb2.LabelPrediction(
                        label=plan.labels[index], index=index, probability=row[index], logit=logits[index]
                    )
                    for index in order
                ],
                tokens=len(text),
                truncated_tokens=text.truncated,
            )
            for text, order, row, logits in zip(
                plan.texts, ranked.tolist(), probabilities.tolist(), map(np.ndarray.tolist, scores), strict=True
            )
        ],
        provenance=render_provenance(model),
    )
