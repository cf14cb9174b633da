# ruff: noqa: ASYNC109  # the timeout is gRPC's deadline, which the server hears of, too
"""The client for asyncio. Its methods are those of `Client` and documented there; they share all but the waiting."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from typing import SupportsIndex

from bertscope import _events, _health, _replies, _requests
from bertscope._ablation_calls import AsyncAblationCalls
from bertscope._benchmark_calls import AsyncBenchmarkCalls
from bertscope._channel import deadline
from bertscope._compression_calls import AsyncCompressionCalls
from bertscope._requests import Inputs, Interventions, Numbers
from bertscope._resumption import Extraction
from bertscope.classification import ClassifiedTexts
from bertscope.errors import BertscopeError, NotFound, Unavailable
from bertscope.results import AttentionMaps, FilledTexts, Health, LoadProgress, Model, Models
from bertscope.v1 import attention_pb2, model_pb2


class AsyncClient(AsyncAblationCalls, AsyncCompressionCalls, AsyncBenchmarkCalls):
    """A connection to a bertscope server for the tasks of one event loop; the same as `Client` otherwise.

    >>> async with bertscope.AsyncClient("127.0.0.1:50051") as client:  # doctest: +SKIP
    ...     async for maps in client.extract_attention(["The cat sat."], layers=[0, 5]):
    ...         maps.attention
    """

    async def fill_mask(
        self,
        texts: str | Iterable[str],
        *,
        model: str | Model | None = None,
        top_k: SupportsIndex | None = None,
        candidates: str | Iterable[str] | None = None,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        truncate: bool = False,
        timeout: float | None = None,
    ) -> FilledTexts:
        """Fills the masks of texts, see `Client.fill_mask`."""
        request = _requests.fill_mask(
            texts,
            model=model,
            top_k=top_k,
            candidates=candidates,
            interventions=interventions,
            reference_texts=reference_texts,
            truncate=truncate,
        )
        return _replies.filled_texts(request, await self._call(self._stubs.cloze.FillMask, request, timeout))

    def extract_attention(
        self,
        inputs: Inputs,
        *,
        model: str | Model | None = None,
        layers: Numbers | None = None,
        heads: Numbers | None = None,
        words: bool = False,
        dtype: str = "float32",
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        truncate: bool = False,
        timeout: float | None = None,
    ) -> AsyncGenerator[AttentionMaps, None]:
        """Streams the attention maps of texts, see `Client.extract_attention`."""
        request = _requests.extract_attention(
            inputs,
            model=model,
            layers=layers,
            heads=heads,
            words=words,
            dtype=dtype,
            interventions=interventions,
            reference_texts=reference_texts,
            truncate=truncate,
        )
        return self._extract_attention(request, timeout)

    async def classify(
        self,
        inputs: Inputs,
        *,
        model: str | Model | None = None,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        truncate: bool = False,
        timeout: float | None = None,
    ) -> ClassifiedTexts:
        """Labels of texts, see `Client.classify`."""
        request = _requests.classify(
            inputs, model=model, interventions=interventions, reference_texts=reference_texts, truncate=truncate
        )
        return _replies.classified_texts(request, await self._call(self._stubs.classification.Classify, request, timeout))

    async def list_models(self, *, timeout: float | None = None) -> Models:
        """The loaded models, see `Client.list_models`."""
        models: list[Model] = []
        page_token = ""
        while True:
            page = await self._call(self._stubs.models.ListModels, _requests.list_models(page_token), timeout)
            models += _replies.models(page.models)
            page_token = page.next_page_token
            if not page_token:
                return Models(models)

    async def get_model(self, model: str | Model | None = None, *, timeout: float | None = None) -> Model:
        """Describes one model, see `Client.get_model`."""
        response = await self._call(self._stubs.models.GetModel, _requests.get_model(model), timeout)
        return _replies.model(response.model)

    async def load_model(
        self,
        model: str | None = None,
        *,
        source: str,
        device: str | None = None,
        precision: str | None = None,
        revision: str | None = None,
        runtime: str | None = None,
        replace: bool = False,
        on_progress: Callable[[LoadProgress], object] | None = None,
        timeout: float | None = None,
    ) -> Model:
        """Loads a model and waits until it is ready, see `Client.load_model`."""
        request = _requests.load_model(
            model, source=source, device=device, precision=precision, revision=revision, runtime=runtime, replace=replace
        )
        messages = self._stream(self._stubs.models.LoadModel, request, timeout)
        found = await _events.last_of(messages, _replies.load_event, LoadProgress, on_progress)
        return _replies.loaded(found)

    def load_model_events(
        self,
        model: str | None = None,
        *,
        source: str,
        device: str | None = None,
        precision: str | None = None,
        revision: str | None = None,
        runtime: str | None = None,
        replace: bool = False,
        timeout: float | None = None,
    ) -> AsyncGenerator[LoadProgress | Model, None]:
        """`load_model` as a stream, see `Client.load_model_events`."""
        request = _requests.load_model(
            model, source=source, device=device, precision=precision, revision=revision, runtime=runtime, replace=replace
        )
        return self._load_model_events(request, timeout)

    async def unload_model(self, model: str | Model, *, timeout: float | None = None) -> None:
        """Unloads a model, see `Client.unload_model`."""
        await self._call(self._stubs.models.UnloadModel, _requests.unload_model(model), timeout)

    async def health(self, *, timeout: float | None = None) -> Health:
        """What the server says of itself, see `Client.health`."""
        services = {service: await self._check(service, timeout) for service in ("", *_health.SERVICES)}
        return Health(status=services.pop(""), services=services)

    async def wait_until_serving(self, timeout: float | None = None) -> None:
        """Waits until the server is there and serves, see `Client.wait_until_serving`."""
        seconds = deadline(timeout, self._timeout)
        watch = self._stubs.health_watch
        async with aclosing(self._stream(watch, _health.request(""), seconds, wait_for_ready=True)) as statuses:
            async for status in statuses:
                if _health.status(status) == "SERVING":
                    return
        raise Unavailable("the server stopped telling its health before it was serving")

    async def _extract_attention(
        self, request: attention_pb2.ExtractAttentionRequest, timeout: float | None
    ) -> AsyncGenerator[AttentionMaps, None]:
        extraction = Extraction(request, deadline(timeout, None))
        while not extraction.complete:
            messages = self._stream(self._stubs.attention.ExtractAttention, extraction.request, extraction.timeout)
            try:
                async with aclosing(messages):
                    async for message in messages:
                        maps = extraction.add(message)
                        if maps is not None:
                            yield maps
                extraction.end()
            except BertscopeError as error:
                extraction.resume(error)

    async def _load_model_events(
        self, request: model_pb2.LoadModelRequest, timeout: float | None
    ) -> AsyncGenerator[LoadProgress | Model, None]:
        async with aclosing(self._stream(self._stubs.models.LoadModel, request, timeout)) as messages:
            async for message in messages:
                event = _replies.load_event(message)
                if event is not None:
                    yield event

    async def _check(self, service: str, timeout: float | None) -> str:
        try:
            return _health.status(await self._call(self._stubs.health_check, _health.request(service), timeout))
        except NotFound:
            return "SERVICE_UNKNOWN"
