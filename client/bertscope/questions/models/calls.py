"""Calls for the models of a server: `list_models`, `get_model`, `load_model`, `unload_model`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from bertscope.rpc.async_connection import AsyncConnection
from bertscope.rpc.async_streams import last
from bertscope.v1 import model_pb2
from bertscope.values.choices import Precision, Runtime
from bertscope.values.models import LoadProgress, Model, Models, model_name, read_load_event, read_model
from bertscope.values.requests import request_of


class AsyncModelCalls(AsyncConnection):
    """The methods of `AsyncClient` that list, load and unload models."""

    async def list_models(self, *, timeout: float | None = None) -> Models:
        """Returns the loaded models, the default model first; all pages."""
        models: list[Model] = []
        request = model_pb2.ListModelsRequest()
        while True:
            page = await self._call(request, model_pb2.ListModelsResponse, timeout)
            models += map(read_model, page.models)
            if not page.next_page_token:
                return Models(models)
            request = model_pb2.ListModelsRequest(page_token=page.next_page_token)

    async def get_model(self, model: str | Model | None = None, *, timeout: float | None = None) -> Model:
        """Describes one model. Raises NotFound if it is not loaded."""
        request = model_pb2.GetModelRequest(name=model_name("name", model))
        response = await self._call(request, model_pb2.GetModelResponse, timeout)
        return read_model(response.model)

    async def load_model(
        self,
        model: str | None = None,
        *,
        source: str | None = None,
        device: str | None = None,
        precision: Precision | None = None,
        revision: str | None = None,
        runtime: Runtime | None = None,
        replace: bool = False,
        on_progress: Callable[[LoadProgress], object] | None = None,
        timeout: float | None = None,
    ) -> Model:
        """Loads a model and waits until it is ready; `on_progress` gets the progress.

        `source` is a hub id, or a folder or .onnx file on the server, and `model` the id that it gets, the last part of the
        source unless set; a `model` alone is the source: `load_model("google-bert/bert-base-uncased")`. `device` is "auto",
        "cpu", "cuda:N" or "mps"; `precision` "fp32", "tf32", "bf16" or "fp16"; `revision` a branch, tag or commit of a hub id;
        `runtime` "torch", "onnx" or "auto", the one that a short measurement finds faster. With `replace`, a model that has the
        id answers until the new one is ready and takes its place; calls that run then finish on the old weights. An exception
        in `on_progress`, or Ctrl-C, abandons the load.
        Raises AlreadyExists for an id in use, unless `replace` is set, and FailedPrecondition for a source that cannot be
        loaded; the model that was to be replaced then serves on.
        """
        events = self.load_model_events(
            model,
            source=source,
            device=device,
            precision=precision,
            revision=revision,
            runtime=runtime,
            replace=replace,
            timeout=timeout,
        )
        return await last(events, lambda event: event, on_progress, Model, "load without a model")

    def load_model_events(
        self,
        model: str | None = None,
        *,
        source: str | None = None,
        device: str | None = None,
        precision: Precision | None = None,
        revision: str | None = None,
        runtime: Runtime | None = None,
        replace: bool = False,
        timeout: float | None = None,
    ) -> AsyncGenerator[LoadProgress | Model, None]:
        """Streams the events of `load_model`: progress any number of times, then the model. Closing the generator cancels the
        load."""
        request = request_of(
            model_pb2.LoadModelRequest,
            model_id=None if source is None else model,
            source=model if source is None else source,
            device=device,
            precision=precision,
            revision=revision,
            runtime=runtime,
            replace=replace,
        )
        return self._load_model_events(request, timeout)

    async def unload_model(self, model: str | Model, *, timeout: float | None = None) -> None:
        """Unloads a model; requests that already run on it finish. Raises NotFound if it is not loaded."""
        await self._call(model_pb2.UnloadModelRequest(name=model_name("name", model)), model_pb2.UnloadModelResponse, timeout)

    async def _load_model_events(
        self, request: model_pb2.LoadModelRequest, timeout: float | None
    ) -> AsyncGenerator[LoadProgress | Model, None]:
        async with aclosing(self._stream(request, model_pb2.LoadModelResponse, timeout)) as messages:
            async for message in messages:
                event = read_load_event(message)
                if event is not None:
                    yield event
