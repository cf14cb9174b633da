"""Runs the engine and the servicers of one model without a gRPC server."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, NoReturn, cast

import bertscope
import grpc
import torch

from bertscope_service.api.reply_memory import ReplyMemory
from bertscope_service.api.request_memory import RequestMemory
from bertscope_service.contract import METHODS
from bertscope_service.models.freed_memory import FreedMemory
from bertscope_service.observability.metrics import Metrics
from bertscope_service.observability.tracer import make_tracer
from bertscope_service.ray_serve.calls import Metadata, Question, Refusal
from bertscope_service.rpc.call_stages import Calls
from bertscope_service.rpc.hosting import Hosting
from bertscope_service.rpc.interceptors import CallInterceptor
from bertscope_service.rpc.load_shedding import CallLimits, LoadShedder
from bertscope_service.rpc.malformed import Malformed
from bertscope_service.rpc.registration import add_methods
from bertscope_service.rpc.services import make_answers
from bertscope_service.settings import Settings

logger = logging.getLogger(__name__)

CLOSE_SECONDS = 2.0
"""The time for a device to finish its running batch."""


class Answering:
    """Answers calls as our own server would, with the same limits, errors, log lines and metrics.

    It belongs to the event loop that it is made in.
    """

    def __init__(self, settings: Settings) -> None:
        self._broken = False
        self._stalled: set[torch.device] = set()
        metrics = Metrics()
        freed = FreedMemory()
        replies, requests = ReplyMemory(metrics, freed), RequestMemory(metrics, freed)
        self._hosting = Hosting(settings, metrics, replies, requests, self._device_broke, self._device_stalled)
        limits = CallLimits(settings.max_calls, settings.max_client_calls)
        self._tracer = make_tracer(settings.trace_endpoint, settings.trace_ratio, bertscope.__version__)
        load_shedder = LoadShedder(limits, metrics, self._hosting.engine.overload)
        calls = Calls(metrics, load_shedder, "connection", replies, requests, self._tracer)
        self._interceptor = CallInterceptor(calls, Malformed(metrics), self._hosting.engine.compute)
        self._methods = MethodTable()
        answers = make_answers(self._hosting, lambda: not self.broken)
        add_methods(self._methods, METHODS.values(), lambda method: answers[method.path])

    @property
    def broken(self) -> bool:
        """True if a device has failed for good, or hangs now."""
        return self._broken or bool(self._stalled)

    async def load_models(self) -> None:
        """Raises ServiceError."""
        await self._hosting.load_models()

    async def ask(self, question: Question) -> bytes | Refusal:
        """Returns the serialised reply of a unary method."""
        handler = await self._handler(question)
        try:
            return cast(bytes, handler.response_serializer(await handler.unary_unary(question.request, CallContext(question))))
        except AbortedError as aborted:
            return aborted.refusal

    async def stream(self, question: Question) -> AsyncGenerator[bytes | Refusal, None]:
        """Yields the serialised replies of a streaming method; a refusal is the last one."""
        handler = await self._handler(question)
        try:
            async with aclosing(handler.unary_stream(question.request, CallContext(question))) as responses:
                async for response in responses:
                    yield handler.response_serializer(response)
        except AbortedError as aborted:
            yield aborted.refusal

    async def close(self) -> None:
        """Frees everything."""
        await self._hosting.engine.close(CLOSE_SECONDS)
        await self._tracer.close()

    async def _handler(self, question: Question) -> Any:
        found = await self._interceptor.wrapped(self._methods.find, Details(question.path, question.metadata))
        return found.reading if found is not None else None

    def _device_broke(self, device: torch.device) -> None:
        logger.critical("%s has failed for good; this replica must be replaced", device)
        self._broken = True

    def _device_stalled(self, device: torch.device, stalled: bool) -> None:
        if stalled:
            self._stalled.add(device)
        else:
            self._stalled.discard(device)


@dataclass(frozen=True, slots=True)
class Details(grpc.HandlerCallDetails):
    """The part of a call that an interceptor sees."""

    method: str
    invocation_metadata: Metadata


class MethodTable:
    """Takes the place of a gRPC server at registration, and finds the registered methods."""

    def __init__(self) -> None:
        self._handlers: list[grpc.GenericRpcHandler] = []

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        self._handlers += handlers

    async def find(self, details: grpc.HandlerCallDetails) -> Any:
        found: list[Any] = [handler.service(details) for handler in self._handlers]
        return next((one for one in found if one is not None), None)


class CallContext:
    """The part of a grpc.aio.ServicerContext that our methods and interceptors use."""

    def __init__(self, question: Question) -> None:
        self._question = question

    def invocation_metadata(self) -> Metadata:
        return self._question.metadata

    def peer(self) -> str:
        """Returns the client of the call; the peer is always the ingress."""
        return self._question.client

    def time_remaining(self) -> None:
        """Returns None: Ray does not pass deadlines on. It cancels the call when its deadline has passed."""

    def set_trailing_metadata(self, metadata: Metadata) -> None:
        """Does nothing: the ingress sends the request id itself."""

    async def abort(self, code: grpc.StatusCode, details: str, trailing_metadata: Metadata) -> NoReturn:
        raise AbortedError(Refusal(code, details, trailing_metadata))


class AbortedError(Exception):
    """Ends a call whose status is known and not OK."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.details)
        self.refusal = refusal
