"""ClassificationService."""

from __future__ import annotations

from typing import Any

import grpc
from bertscope.v1 import classification_pb2, classification_pb2_grpc

from bertscope_service.analyses.classification import ClassifyPlan
from bertscope_service.engine.rows import Row
from bertscope_service.messages.classification import parse_classify, render_classify
from bertscope_service.messages.common import check_tokens, parse_interventions, parse_reference_texts
from bertscope_service.servicers.base import INLINE_CHARACTERS, Backend, Caller, off_loop
from bertscope_service.servicers.requirements import require_classification, require_observable

INLINE_LABELS = 2000
"""Replies with fewer labels are written on the loop."""


class ClassificationServicer(classification_pb2_grpc.ClassificationServiceServicer):
    """Asks models with a sequence classification head."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def Classify(
        self,
        request: classification_pb2.ClassifyRequest,
        context: grpc.aio.ServicerContext[Any, Any],
    ) -> classification_pb2.ClassifyResponse:
        with self._backend.registry.use(request.model) as model:
            require_classification(model)
            require_observable(model, asked=bool(request.interventions))
            shape, tokenizer = model.encoder.shape, model.tokenizer
            query = parse_classify(request, self._backend.limits)
            interventions = parse_interventions(request.interventions, shape, model.name)
            reference_texts = parse_reference_texts(request.reference_texts, interventions, self._backend.limits)
            characters = sum(len(text) + len(pair or "") for text, pair in query.inputs)
            plan = await off_loop(lambda: ClassifyPlan(query, tokenizer, shape.labels), large=characters > INLINE_CHARACTERS)
            check_tokens((sequence for sequence, _ in plan.rows), "inputs", self._backend.limits)
            caller = Caller.of(context)
            gates = await caller.gates(self._backend.engine, model, interventions, reference_texts)
            rows = [Row(model.encoder, sequence, observer, gates) for sequence, observer in plan.rows]
            scores = await caller.run(self._backend.engine, rows)
            return await off_loop(
                lambda: render_classify(plan.answer(scores), model), large=len(rows) * len(shape.labels) > INLINE_LABELS
            )
