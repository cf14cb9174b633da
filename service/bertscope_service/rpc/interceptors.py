"""Handles every call of our own services: parsing, and the stages of `call_stages.py`, whose order `_around` states."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

import grpc

from bertscope_service.api.reply_memory import ReplyMemory
from bertscope_service.contract import METHODS, Method, Work
from bertscope_service.engine.lease import stopping
from bertscope_service.observability.metrics import MethodMetrics, Metrics
from bertscope_service.observability.tracing import NoTracer, Tracer
from bertscope_service.rpc.call_stages import Call, Context, Counting, ErrorsToStatus, InFlight, Logging, Tracing
from bertscope_service.rpc.calls_in_flight import CallsInFlight
from bertscope_service.rpc.load_shedding import LoadShedder, RefusalLog
from bertscope_service.rpc.malformed import Malformed
from bertscope_service.security import callers

IDLE_SECONDS = 0.02
"""If no call came for this long, none waits to be accepted, and all replies have been sent."""

Handler: TypeAlias = Any
"""A grpc.RpcMethodHandler; its type hints do not cover asyncio."""


class CallInterceptor(grpc.aio.ServerInterceptor):
    """Wraps the methods of our own services; for health, reflection and channelz, it only rejects malformed requests.

    * A request that is not valid protobuf (text that is not UTF-8, for one) is INVALID_ARGUMENT; grpc itself would say UNKNOWN.
    * A servicer's exception becomes a status, once, here.
    * While `draining`, new calls get UNAVAILABLE.
    * Calls over the limits are rejected before their requests are parsed. They share a line of the log each second; at the
      debug level each has its own.
    * A reply counts against the memory for all replies until its caller has it; a reply that finds none left is rejected.
    * Every call has a request id, the caller's `x-request-id` or a new one; it is returned in the trailing metadata. It is not
      in the initial metadata: once they are sent, gRPC clients no longer retry a call.
    """

    def __init__(
        self,
        metrics: Metrics,
        load_shedder: LoadShedder,
        identity: callers.Identity,
        malformed: Malformed,
        reply_memory: ReplyMemory,
        tracer: Tracer | None = None,
    ) -> None:
        self._metrics = metrics
        self._load_shedder = load_shedder
        self._identity = identity
        self._tracer = tracer or NoTracer()
        self._refusals = RefusalLog()
        self._malformed = malformed
        self._reply_memory = reply_memory
        self._wrapped: dict[str, Handler] = {}
        self._answering = asyncio.Event()
        self._answering.set()
        self._arrived = False
        self.calls = CallsInFlight()
        self.draining = False

    async def wait_until_idle(self, seconds: float) -> None:
        """Waits for a moment in which no call runs and none comes in, for at most `seconds`.

        Calls wait inside gRPC until the loop accepts them, for a second under load. At that moment all received calls are
        accepted.
        """
        end = time.monotonic() + seconds
        self._arrived = True
        while (self._arrived or self.calls) and time.monotonic() < end:
            self._arrived = False
            await asyncio.sleep(IDLE_SECONDS)

    @contextlib.asynccontextmanager
    async def holding_replies(self) -> AsyncIterator[None]:
        """Holds back replies and rejections: a client that gets one calls again at once, perhaps on a closing connection."""
        self._answering.clear()
        try:
            yield
        finally:
            self._answering.set()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        self._arrived = True
        path = handler_call_details.method
        self._malformed.check_metadata(handler_call_details.invocation_metadata or ())
        wrapped = self._wrapped.get(path)
        if wrapped is None:
            wrapped = await continuation(handler_call_details)
            if wrapped is not None:
                # Only existing methods get here, so this grows no larger than the contract.
                method = METHODS.get(path)
                wrapped = self._wrapped[path] = self._wrap(wrapped, method) if method else self._malformed.guard(wrapped)
        return wrapped

    def _wrap(self, handler: Handler, method: Method) -> Handler:
        metrics = MethodMetrics(self._metrics, method.name)
        make = grpc.unary_stream_rpc_method_handler if method.streaming else grpc.unary_unary_rpc_method_handler
        call = self._streaming(handler, method, metrics) if method.streaming else self._unary(handler, method, metrics)
        return make(call, response_serializer=bytes)  # serialised already: a reply's memory is counted before it is sent

    def _unary(self, handler: Handler, method: Method, metrics: MethodMetrics) -> Callable[[bytes, Context], Awaitable[bytes]]:
        serialize = handler.response_serializer or bytes

        async def call(raw: bytes, context: Context) -> bytes:
            async with self._around(method, context, metrics):
                request = self._malformed.parse(handler, metrics.received(raw))
                reply = serialize(await handler.unary_unary(request, context))
                self._reply_memory.hold(callers.current.get(), len(reply))
                return metrics.sent(reply)

        return call

    def _streaming(
        self, handler: Handler, method: Method, metrics: MethodMetrics
    ) -> Callable[[bytes, Context], AsyncIterator[bytes]]:
        serialize = handler.response_serializer or bytes

        async def call(raw: bytes, context: Context) -> AsyncIterator[bytes]:
            begun = False
            async with self._around(method, context, metrics):
                responses = handler.unary_stream(self._malformed.parse(handler, metrics.received(raw)), context)
                try:
                    async for response in responses:
                        reply = serialize(response)
                        # gRPC holds one message of a stream at a time, and requests the next when its reader has room.
                        self._reply_memory.hold(callers.current.get(), len(reply), begun=begun)
                        begun = True
                        yield metrics.sent(reply)
                finally:
                    await responses.aclose()

        return call

    @contextlib.asynccontextmanager
    async def _around(self, method: Method, context: Context, metrics: MethodMetrics) -> AsyncIterator[None]:
        """Runs a call inside all its stages, from the outside in. The outer ones read the status that `ErrorsToStatus` sets."""
        call = Call.of(method, context)
        with Logging(call), Tracing(call, self._tracer) as tracing, Counting(call, metrics):
            async with ErrorsToStatus(call, self._refusals):
                tracing.begin()
                if self.draining and method.work is not Work.PROBE:
                    await self._refuse(call)
                with self._admit(call), InFlight(call, self.calls):
                    yield
                    await self._answering.wait()

    async def _refuse(self, call: Call) -> None:
        """Raises Unavailable as soon as refusals may be sent."""
        call.stopped = True
        self._metrics.rejected.labels("draining").inc()
        await self._answering.wait()
        raise stopping()

    def _admit(self, call: Call) -> AbstractContextManager[None]:
        """Identifies the client of a call, and counts the call against its limits. Raises Overloaded."""
        client = callers.identify(call.context, self._identity)
        callers.current.set(client)
        return self._load_shedder.admit(call.method.work, client, call.context.time_remaining())
