"""The engine and the servicers of one model, called without a gRPC server."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, NoReturn, cast

import bertscope
import grpc
import torch

from bertscope_service.door import CallLimits, Door
from bertscope_service.hosting import Hosting
from bertscope_service.interceptors import CallInterceptor
from bertscope_service.ray_serve.calls import Metadata, Question, Refusal
from bertscope_service.services import add_services
from bertscope_service.settings import Settings
from bertscope_service.tracing.calls import make_tracer

logger = logging.getLogger(__name__)


class Answering:
    """Answers questions as our own server would, with the same limits, errors, log lines and metrics.

    Belongs to the event loop it is made in.
    """

    def __init__(self, settings: Settings) -> None:
        self.broken = False
        self._hosting = Hosting(settings, self._device_broke)
        metrics, engine = self._hosting.metrics, self._hosting.engine
        limits = CallLimits(settings.max_calls, settings.max_client_calls)
        self._tracer = make_tracer(settings.trace_endpoint, settings.trace_ratio, bertscope.__version__)
        self._interceptor = CallInterceptor(metrics, Door(limits, metrics, engine.crowded), "connection", self._tracer)
        self._methods = MethodTable()
        add_services(cast(grpc.aio.Server, self._methods), self._hosting, lambda: not self.broken)

    async def load_models(self) -> None:
        """Raises ServiceError."""
        await self._hosting.load_models()

    async def ask(self, question: Question) -> bytes | Refusal:
        """The reply of a method that answers once, serialised."""
        handler = await self._handler(question)
        try:
            return cast(bytes, handler.response_serializer(await handler.unary_unary(question.request, CallContext(question))))
        except AbortedError as aborted:
            return aborted.refusal

    async def stream(self, question: Question) -> AsyncGenerator[bytes | Refusal, None]:
        """The replies of a method that streams, serialised; a refusal is the last one."""
        handler = await self._handler(question)
        try:
            async with aclosing(handler.unary_stream(question.request, CallContext(question))) as responses:
                async for response in responses:
                    yield handler.response_serializer(response)
        except AbortedError as aborted:
            yield aborted.refusal

    async def close(self) -> None:
        """Give everything back."""
        await self._hosting.engine.close()
        await self._tracer.close()

    async def _handler(self, question: Question) -> Any:
        return await self._interceptor.intercept_service(self._methods.find, Details(question.path, question.metadata))

    def _device_broke(self, device: torch.device) -> None:
        logger.critical("%s has failed for good; this replica must be replaced", device)
        self.broken = True


@dataclass(frozen=True, slots=True)
class Details(grpc.HandlerCallDetails):
    """What an interceptor hears of a call."""

    method: str
    invocation_metadata: Metadata


class MethodTable:
    """Stands where servicers are registered for a gRPC server, and finds their methods."""

    def __init__(self) -> None:
        self._handlers: list[grpc.GenericRpcHandler] = []

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        self._handlers += handlers

    def add_registered_method_handlers(self, service: str, handlers: object) -> None:
        """The same methods once more, which gRPC finds faster by it."""

    async def find(self, details: grpc.HandlerCallDetails) -> Any:
        found: list[Any] = [handler.service(details) for handler in self._handlers]
        return next((one for one in found if one is not None), None)


class CallContext:
    """As much of a grpc.aio.ServicerContext as methods and interceptors of ours use."""

    def __init__(self, question: Question) -> None:
        self._question = question

    def invocation_metadata(self) -> Metadata:
        return self._question.metadata

    def peer(self) -> str:
        """Not where the call comes from, which is always the ingress, but for whom."""
        return self._question.client

    def time_remaining(self) -> None:
        """Unknown: Ray does not pass deadlines on. It cancels the call when its deadline has passed."""

    def set_trailing_metadata(self, metadata: Metadata) -> None:
        """The ingress sends the request id itself."""

    async def abort(self, code: grpc.StatusCode, details: str, trailing_metadata: Metadata) -> NoReturn:
        raise AbortedError(Refusal(code, details, trailing_metadata))


class AbortedError(Exception):
    """The status of a call is known, and it is not OK."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.details)
        self.refusal = refusal
