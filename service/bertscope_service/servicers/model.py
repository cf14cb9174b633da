"""ModelService."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
from bertscope.v1 import model_pb2, model_pb2_grpc

from bertscope_service.messages.model import parse_load, parse_page, parse_unload, render_model, render_page, render_progress
from bertscope_service.servicers.base import Backend
from bertscope_service.settings import Settings
from bertscope_service.sources import Progress

Context = grpc.aio.ServicerContext[Any, Any]


class ModelServicer(model_pb2_grpc.ModelServiceServicer):
    """Lists, loads and unloads models."""

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
        loop, news = asyncio.get_running_loop(), asyncio.Event()
        latest: list[Progress] = []

        def note(progress: Progress) -> None:
            # Of one stage only the newest progress is kept: a slow reader must not make a list grow.
            if latest and latest[-1].stage is progress.stage:
                latest.pop()
            latest.append(progress)
            news.set()

        def report(progress: Progress) -> None:
            loop.call_soon_threadsafe(note, progress)

        load = asyncio.create_task(self._backend.registry.load(spec, report))
        load.add_done_callback(lambda _: news.set())
        try:
            while not load.done() or latest:
                await news.wait()
                news.clear()
                for progress in [latest.pop(0) for _ in range(len(latest))]:
                    yield render_progress(progress)
            await load
        finally:
            load.cancel()
        yield model_pb2.LoadModelResponse(model=render_model(self._backend.registry.find(spec.name)))

    async def UnloadModel(self, request: model_pb2.UnloadModelRequest, context: Context) -> model_pb2.UnloadModelResponse:
        await self._backend.registry.unload(parse_unload(request))
        return model_pb2.UnloadModelResponse()
