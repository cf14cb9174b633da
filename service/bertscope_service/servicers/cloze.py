"""ClozeService."""

from __future__ import annotations

from typing import Any

import grpc
from bertscope.v1 import cloze_pb2, cloze_pb2_grpc

from bertscope_service.analyses.cloze import ClozePlan
from bertscope_service.engine.rows import Row
from bertscope_service.messages.cloze import parse_fill_mask, render_fill_mask
from bertscope_service.messages.common import parse_interventions, parse_reference_texts
from bertscope_service.servicers.base import INLINE_CHARACTERS, Backend, Caller, off_loop
from bertscope_service.servicers.requirements import require_cloze, require_observable

INLINE_PREDICTIONS = 500
"""Replies with fewer predictions are written on the loop."""


class ClozeServicer(cloze_pb2_grpc.ClozeServiceServicer):
    """Queries a masked language model by cloze."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def FillMask(
        self,
        request: cloze_pb2.FillMaskRequest,
        context: grpc.aio.ServicerContext[Any, Any],
    ) -> cloze_pb2.FillMaskResponse:
        with self._backend.registry.use(request.model) as model:
            require_cloze(model)
            require_observable(model, asked=bool(request.interventions))
            shape, tokenizer = model.encoder.shape, model.tokenizer
            query = parse_fill_mask(request, shape, self._backend.limits)
            interventions = parse_interventions(request.interventions, shape, model.name)
            reference_texts = parse_reference_texts(request.reference_texts, interventions, self._backend.limits)
            characters = sum(map(len, query.texts)) + len(query.texts) * sum(map(len, query.candidates))
            plan = await off_loop(lambda: ClozePlan(query, tokenizer), large=characters > INLINE_CHARACTERS)
            caller = Caller.of(context)
            gates = await caller.gates(self._backend.engine, model, interventions, reference_texts)
            rows = [Row(model.encoder, sequence, observer, gates) for sequence, observer in plan.rows]
            scores = await caller.run(self._backend.engine, rows)
            return await off_loop(
                lambda: render_fill_mask(plan.answer(scores), tokenizer, model), large=plan.predictions > INLINE_PREDICTIONS
            )
