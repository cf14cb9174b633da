"""The ModelService."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Hashable
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Protocol

import numpy as np
from bertscope.v1 import common_pb2, model_pb2, model_pb2_grpc
from numpy.typing import NDArray

from bertscope_service.ablation.ranking import rank_heads
from bertscope_service.api.answer import Backend, Call, Context
from bertscope_service.api.checks import check_model_id
from bertscope_service.api.compression import parse_compress, render_steps
from bertscope_service.api.field_checks import check_fields
from bertscope_service.api.model_rendering import render_model, render_page, render_progress
from bertscope_service.api.pages import parse_page
from bertscope_service.api.progress import progress_of
from bertscope_service.api.provenance import ASKABLE_PRECISIONS, PRECISIONS, parse_runtime
from bertscope_service.checkpoints.sources import Progress
from bertscope_service.checkpoints.steps import RemoveHeads, StepProgress
from bertscope_service.compression.importance import masked_lm_objective
from bertscope_service.models.loaded import LoadedModel, LoadSpec
from bertscope_service.models.registry import Report


class LoadDefaults(Protocol):
    """The settings for how a model runs, used where a request leaves it open."""

    device: str
    precision: Literal["auto", "fp32", "tf32", "bf16", "fp16"]
    runtime: Literal["auto", "torch", "onnx"]


class ModelServicer(model_pb2_grpc.ModelServiceServicer):
    """Serves ModelService: lists, loads, unloads and compresses models."""

    def __init__(self, backend: Backend, settings: LoadDefaults) -> None:
        self._backend = backend
        self._settings = settings

    async def ListModels(self, request: model_pb2.ListModelsRequest, context: Context) -> model_pb2.ListModelsResponse:
        check_fields(request, self._backend.limits)
        return render_page(self._backend.registry.entries(), *parse_page(request))

    async def GetModel(self, request: model_pb2.GetModelRequest, context: Context) -> model_pb2.GetModelResponse:
        return model_pb2.GetModelResponse(model=render_model(self._backend.registry.find(request.name)))

    async def LoadModel(
        self, request: model_pb2.LoadModelRequest, context: Context
    ) -> AsyncIterator[model_pb2.LoadModelResponse]:
        check_fields(request, self._backend.limits)
        spec = parse_load(request, self._settings)
        confinement = await asyncio.to_thread(self._backend.policy.confine, spec.source, spec.revision)
        spec = replace(spec, confinement=confinement)
        registry = self._backend.registry

        loaded: list[model_pb2.Model] = []

        async def load(report: Report) -> None:
            await registry.load(spec, report, replacing=request.replace)
            # Rendered now: by the time the client has read the progress, another call may have unloaded or replaced it.
            loaded.append(render_model(registry.find(spec.name)))

        async with aclosing(progress_of(load, stage_of)) as reports:
            async for progress in reports:
                if isinstance(progress, Progress):
                    yield render_progress(progress)
        yield model_pb2.LoadModelResponse(model=loaded[0])

    async def CompressModel(
        self, request: model_pb2.CompressModelRequest, context: Context
    ) -> AsyncIterator[model_pb2.CompressModelResponse]:
        backend = self._backend
        with backend.registry.use(request.model) as model:
            call = Call.of(backend, model, context)
            await call.compute(partial(check_fields, request, backend.limits))
            asked = await call.compute(partial(parse_compress, request, model.encoder.shape, model.name))
            await asyncio.to_thread(backend.policy.check_folder, asked.folder)

            async def rank(step: RemoveHeads, field: str) -> NDArray[np.float64]:
                objective = await call.compute(partial(masked_lm_objective, step.texts, model.tokenizer, field))
                encoder = (await backend.registry.with_gradients(model)).encoder
                return (await rank_heads(encoder, objective, None, call.bulk(encoder))).importance

            def compress(report: Report) -> Coroutine[Any, Any, LoadedModel]:
                return backend.registry.compress(model, asked.model_id, asked.steps, asked.folder, report, rank=rank)

            async with aclosing(progress_of(compress, stage_of)) as reports:
                async for progress in reports:
                    if isinstance(progress, StepProgress):
                        yield render_steps(progress)
            new = backend.registry.find(f"models/{asked.model_id}")
            yield model_pb2.CompressModelResponse(model=render_model(new))

    async def UnloadModel(self, request: model_pb2.UnloadModelRequest, context: Context) -> model_pb2.UnloadModelResponse:
        check_fields(request, self._backend.limits)
        await self._backend.registry.unload(request.name)
        return model_pb2.UnloadModelResponse()


def parse_load(request: model_pb2.LoadModelRequest, settings: LoadDefaults) -> LoadSpec:
    """Converts the request to a specification. Raises InvalidArgument."""
    precisions = {PRECISIONS[precision]: precision for precision in ASKABLE_PRECISIONS}
    precisions[common_pb2.PRECISION_UNSPECIFIED] = settings.precision
    precision = precisions[request.precision]
    device, runtime = request.device or settings.device, parse_runtime(request.runtime, settings.runtime)
    return load_spec(request.model_id, request.source, device, precision, runtime, request.revision)


def load_spec(model_id: str, source: str, device: str, precision: str, runtime: str, revision: str = "") -> LoadSpec:
    """Builds a specification; `model_id` "" becomes the last part of the source. Raises InvalidArgument for a malformed id."""
    chosen = check_model_id(model_id or source.rstrip("/").rpartition("/")[2].removesuffix(".onnx"))
    return LoadSpec(chosen, source, device, precision, revision, runtime=runtime)


def stage_of(progress: Progress | StepProgress) -> Hashable:
    """Returns the stage of a report; only the newest report of a stage is kept."""
    return progress.stage if isinstance(progress, Progress) else progress
