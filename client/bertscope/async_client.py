# ruff: noqa: ASYNC109  # the timeout is gRPC's deadline, which the server hears of, too
"""The client for asyncio. Its methods are those of `Client` and documented there; they share all but the waiting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from functools import cached_property
from typing import Self, SupportsIndex, TypeVar

import grpc
import grpc.aio
from google.protobuf.wrappers_pb2 import Int32Value, StringValue

from bertscope import _health, _replies, _requests
from bertscope._assembly import AttentionAssembler
from bertscope._channel import DEFAULT_TARGET, DEFAULT_TIMEOUT_SECONDS, ChannelOptions, channel_options, deadline
from bertscope._requests import Inputs, Numbers
from bertscope.errors import Cancelled, NotFound, Unavailable, from_call
from bertscope.interventions import HeadIntervention
from bertscope.results import AttentionMaps, FilledTexts, Health, LoadProgress, Model, Models
from bertscope.v1 import attention_pb2, model_pb2
from bertscope.v1.attention_pb2_grpc import AttentionServiceStub
from bertscope.v1.cloze_pb2_grpc import ClozeServiceStub
from bertscope.v1.model_pb2_grpc import ModelServiceStub

Request = TypeVar("Request")
Response = TypeVar("Response")


class _Connection:
    """A channel and the stubs on it."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.channel = channel
        self.attention = AttentionServiceStub(channel)
        self.cloze = ClozeServiceStub(channel)
        self.models = ModelServiceStub(channel)
        self.health_check = channel.unary_unary(_health.CHECK, StringValue.SerializeToString, Int32Value.FromString)
        self.health_watch = channel.unary_stream(_health.WATCH, StringValue.SerializeToString, Int32Value.FromString)


class AsyncClient:
    """A connection to a bertscope server for the tasks of one event loop; the same as `Client` otherwise.

    >>> async with bertscope.AsyncClient("127.0.0.1:50051") as client:  # doctest: +SKIP
    ...     async for maps in client.extract_attention(["The cat sat."], layers=[0, 5]):
    ...         maps.attention
    """

    def __init__(
        self,
        target: str = DEFAULT_TARGET,
        *,
        credentials: grpc.ChannelCredentials | None = None,
        options: ChannelOptions = (),
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
    ) -> None:
        """As `Client`. May be called outside the event loop: the first call binds the client to the loop it runs in."""
        self._target = target
        self._credentials = credentials
        self._options = channel_options(options)
        self._timeout = deadline(timeout, None)
        self._closed = False

    async def close(self) -> None:
        """Ends the connection; calls that still run raise Cancelled."""
        if self._closed:
            return
        self._closed = True  # First, so that the calls that the channel now cancels know why.
        if "_connection" in self.__dict__:
            await self._connection.channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def fill_mask(
        self,
        texts: str | Iterable[str],
        *,
        model: str | Model | None = None,
        top_k: SupportsIndex | None = None,
        candidates: str | Iterable[str] | None = None,
        interventions: HeadIntervention | Iterable[HeadIntervention] = (),
        truncate: bool = False,
        timeout: float | None = None,
    ) -> FilledTexts:
        """Fills the masks of texts, see `Client.fill_mask`."""
        request = _requests.fill_mask(
            texts, model=model, top_k=top_k, candidates=candidates, interventions=interventions, truncate=truncate
        )
        return _replies.filled_texts(request, await self._call(self._connection.cloze.FillMask, request, timeout))

    def extract_attention(
        self,
        inputs: Inputs,
        *,
        model: str | Model | None = None,
        layers: Numbers | None = None,
        heads: Numbers | None = None,
        words: bool = False,
        dtype: str = "float32",
        interventions: HeadIntervention | Iterable[HeadIntervention] = (),
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
            truncate=truncate,
        )
        return self._extract_attention(request, timeout)

    async def list_models(self, *, timeout: float | None = None) -> Models:
        """The loaded models, see `Client.list_models`."""
        models: list[Model] = []
        page_token = ""
        while True:
            page = await self._call(self._connection.models.ListModels, _requests.list_models(page_token), timeout)
            models += _replies.models(page.models)
            page_token = page.next_page_token
            if not page_token:
                return Models(models)

    async def get_model(self, model: str | Model | None = None, *, timeout: float | None = None) -> Model:
        """Describes one model, see `Client.get_model`."""
        response = await self._call(self._connection.models.GetModel, _requests.get_model(model), timeout)
        return _replies.model(response.model)

    async def load_model(
        self,
        model: str | None = None,
        *,
        source: str,
        device: str | None = None,
        precision: str | None = None,
        revision: str | None = None,
        on_progress: Callable[[LoadProgress], object] | None = None,
        timeout: float | None = None,
    ) -> Model:
        """Loads a model and waits until it is ready, see `Client.load_model`."""
        event: LoadProgress | Model | None = None
        async with aclosing(
            self.load_model_events(model, source=source, device=device, precision=precision, revision=revision, timeout=timeout)
        ) as events:
            async for event in events:
                if on_progress and isinstance(event, LoadProgress):
                    on_progress(event)
        return _replies.loaded(event)

    def load_model_events(
        self,
        model: str | None = None,
        *,
        source: str,
        device: str | None = None,
        precision: str | None = None,
        revision: str | None = None,
        timeout: float | None = None,
    ) -> AsyncGenerator[LoadProgress | Model, None]:
        """`load_model` as a stream, see `Client.load_model_events`."""
        request = _requests.load_model(model, source=source, device=device, precision=precision, revision=revision)
        return self._load_model_events(request, timeout)

    async def unload_model(self, model: str | Model, *, timeout: float | None = None) -> None:
        """Unloads a model, see `Client.unload_model`."""
        await self._call(self._connection.models.UnloadModel, _requests.unload_model(model), timeout)

    async def health(self, *, timeout: float | None = None) -> Health:
        """What the server says of itself, see `Client.health`."""
        services = {service: await self._check(service, timeout) for service in ("", *_health.SERVICES)}
        return Health(status=services.pop(""), services=services)

    async def wait_until_serving(self, timeout: float | None = None) -> None:
        """Waits until the server is there and serves, see `Client.wait_until_serving`."""
        seconds = deadline(timeout, self._timeout)
        watch = self._connection.health_watch
        async with aclosing(self._stream(watch, _health.request(""), seconds, wait_for_ready=True)) as statuses:
            async for status in statuses:
                if _health.status(status) == "SERVING":
                    return
        raise Unavailable("the server stopped telling its health before it was serving")

    async def _extract_attention(
        self, request: attention_pb2.ExtractAttentionRequest, timeout: float | None
    ) -> AsyncGenerator[AttentionMaps, None]:
        assembler = AttentionAssembler(request)
        async with aclosing(self._stream(self._connection.attention.ExtractAttention, request, timeout)) as messages:
            async for message in messages:
                maps = assembler.add(message)
                if maps is not None:
                    yield maps
        assembler.end()

    async def _load_model_events(
        self, request: model_pb2.LoadModelRequest, timeout: float | None
    ) -> AsyncGenerator[LoadProgress | Model, None]:
        async with aclosing(self._stream(self._connection.models.LoadModel, request, timeout)) as messages:
            async for message in messages:
                event = _replies.load_event(message)
                if event is not None:
                    yield event

    async def _check(self, service: str, timeout: float | None) -> str:
        try:
            return _health.status(await self._call(self._connection.health_check, _health.request(service), timeout))
        except NotFound:
            return "SERVICE_UNKNOWN"

    @cached_property
    def _connection(self) -> _Connection:
        """Made by the first call, because a channel of `grpc.aio` belongs to the event loop it is made in."""
        self._require_open()
        if self._credentials is None:
            return _Connection(grpc.aio.insecure_channel(self._target, self._options))
        return _Connection(grpc.aio.secure_channel(self._target, self._credentials, self._options))

    async def _call(
        self, method: grpc.aio.UnaryUnaryMultiCallable[Request, Response], request: Request, timeout: float | None
    ) -> Response:
        """The one path of every call that answers once."""
        self._require_open()
        seconds = deadline(timeout, self._timeout)
        try:
            return await method(request, timeout=seconds)
        except grpc.aio.AioRpcError as error:
            raise from_call(error, seconds) from error
        except asyncio.CancelledError:
            self._raise_if_closed()
            raise

    async def _stream(
        self,
        method: grpc.aio.UnaryStreamMultiCallable[Request, Response],
        request: Request,
        timeout: float | None,
        *,
        wait_for_ready: bool = False,
    ) -> AsyncGenerator[Response, None]:
        """The one path of every call that streams; closing the generator cancels the call."""
        self._require_open()
        seconds = deadline(timeout, None)
        call = method(request, timeout=seconds, wait_for_ready=wait_for_ready)
        try:
            async for response in call:
                yield response
        except grpc.aio.AioRpcError as error:
            raise from_call(error, seconds) from error
        except asyncio.CancelledError:
            self._raise_if_closed()
            raise
        finally:
            call.cancel()

    def _raise_if_closed(self) -> None:
        """Tells a call that `close` ended from a task that was cancelled, which must stay so."""
        task = asyncio.current_task()
        if self._closed and not (task and task.cancelling()):
            raise Cancelled("the client was closed while the call ran") from None

    def _require_open(self) -> None:
        if self._closed:
            raise RuntimeError("the client is closed")
