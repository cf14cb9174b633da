"""ClozeService."""

from __future__ import annotations

from typing import Any

import grpc
from bertscope.v1 import cloze_pb2, cloze_pb2_grpc

from bertscope_service.analyses.cloze import ClozePlan
from bertscope_service.engine.rows import Row
from bertscope_service.errors import Unsupported
from bertscope_service.messages.cloze import parse_fill_mask, render_fill_mask
from bertscope_service.messages.common import parse_interventions
from bertscope_service.registry import LoadedModel
from bertscope_service.servicers.base import INLINE_CHARACTERS, Backend, Caller, off_loop

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
            shape, tokenizer = model.encoder.shape, model.tokenizer
            query = parse_fill_mask(request, shape, self._backend.limits)
            gates = parse_interventions(request.interventions, shape, model.name)
            characters = sum(map(len, query.texts)) + len(query.texts) * sum(map(len, query.candidates))
            plan = await off_loop(lambda: ClozePlan(query, tokenizer), large=characters > INLINE_CHARACTERS)
            rows = [Row(model.encoder, sequence, observer, gates) for sequence, observer in plan.rows]
            scores = await Caller.of(context).run(self._backend.engine, rows)
            return await off_loop(
                lambda: render_fill_mask(plan.answer(scores), tokenizer, model), large=plan.predictions > INLINE_PREDICTIONS
            )


def require_cloze(model: LoadedModel) -> None:
    """Raise Unsupported for a model that can't fill masks."""
    if not model.encoder.shape.has_masked_lm_head:
        message = f"{model.name} has no masked-LM head in its checkpoint, so it can't fill masks; load one that has"
        raise Unsupported(message, "NO_MASKED_LM_HEAD", model=model.name)
    if model.tokenizer.mask_id is None:
        raise Unsupported(f"{model.name} has no mask token, so it can't fill masks", "NO_MASK_TOKEN", model=model.name)
