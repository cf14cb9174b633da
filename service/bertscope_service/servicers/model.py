"""ModelService."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Hashable
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import grpc
import numpy as np
from bertscope.v1 import model_pb2, model_pb2_grpc
from numpy.typing import NDArray

from bertscope_service.compression.importance import masked_lm_objective
from bertscope_service.compression.steps import RemoveHeads, StepProgress
from bertscope_service.jobs.ranking import rank_heads
from bertscope_service.loaded import LoadedModel
from bertscope_service.messages.compression import parse_compress, render_steps
from bertscope_service.messages.model import parse_load, parse_unload, render_model, render_page, render_progress
from bertscope_service.messages.pages import parse_page
from bertscope_service.registry import Report
from bertscope_service.servicers.base import INLINE_BYTES, Backend, Caller, off_loop
from bertscope_service.servicers.progress import progress_of
from bertscope_service.settings import Settings
from bertscope_service.sources import Progress

Context = grpc.aio.ServicerContext[Any, Any]


class ModelServicer(model_pb2_grpc.ModelServiceServicer):
    """Lists, loads, unloads and compresses models."""

    def __init__(self, backend: Backend, settings: Settings) -> None:
        self._backend = backend
        self._settings = settings

    async def ListModels(self, request: model_pb2.ListModelsRequest, context: Context) -> model_pb2.ListModelsResponse:
        return render_page(self._backend.registry.entries(), *parse_page(request))

    async def GetModel(self, request: model_pb2.GetModelRequest, context: Context) -> model_pb2.GetModelResponse:
        return model_pb2.GetModelResponse(model=render_model(self._backend.registry.find(request.name)))

    async def LoadModel(
        self, request: model_pb2.LoadModelRequest, context: Context
    ) -> AsyncIterator[model_pb2.LoadModelResponse]:
        spec = parse_load(request, self._settings)
        confinement = await asyncio.to_thread(self._backend.policy.confine, spec.source, spec.revision)
        spec = replace(spec, confinement=confinement)
        registry = self._backend.registry

        loaded: list[model_pb2.Model] = []

        async def load(report: Report) -> None:
            await registry.load(spec, report, replacing=request.replace)
            # Now: by the time the reader has taken the progress, somebody may have unloaded or replaced it.
            loaded.append(render_model(registry.find(spec.name)))

        async with aclosing(progress_of(load, stage_of)) as news:
            async for progress in news:
                if isinstance(progress, Progress):
                    yield render_progress(progress)
        yield model_pb2.LoadModelResponse(model=loaded[0])

    async def CompressModel(
        self, request: model_pb2.CompressModelRequest, context: Context
    ) -> AsyncIterator[model_pb2.CompressModelResponse]:
        backend, caller = self._backend, Caller.of(context)
        with backend.registry.use(request.model) as model:
            large, shape = request.ByteSize() > INLINE_BYTES, model.encoder.shape
            asked = await off_loop(lambda: parse_compress(request, shape, backend.limits, model.name), large=large)
            await asyncio.to_thread(backend.policy.check_folder, asked.folder)

            async def rank(step: RemoveHeads, field: str) -> NDArray[np.float64]:
                objective = await off_loop(lambda: masked_lm_objective(step.texts, model.tokenizer, field), large=True)
                encoder = (await backend.registry.with_gradients(model)).encoder
                return (await rank_heads(encoder, objective, None, caller.bulk(backend.engine, encoder))).importance

            def compress(report: Report) -> Coroutine[Any, Any, LoadedModel]:
                return backend.registry.compress(model, asked.model_id, asked.steps, asked.folder, report, rank=rank)

            async with aclosing(progress_of(compress, stage_of)) as news:
                async for progress in news:
                    if isinstance(progress, StepProgress):
                        yield render_steps(progress)
            new = backend.registry.find(f"models/{asked.model_id}")
            yield model_pb2.CompressModelResponse(model=render_model(new))

    async def UnloadModel(self, request: model_pb2.UnloadModelRequest, context: Context) -> model_pb2.UnloadModelResponse:
        await self._backend.registry.unload(parse_unload(request))
        return model_pb2.UnloadModelResponse()


def stage_of(progress: Progress | StepProgress) -> Hashable:
    """What only the newest report is kept of."""
    return progress.stage if isinstance(progress, Progress) else progress
