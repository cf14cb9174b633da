"""What happens to every call of ours, in one place: parsing, errors, metrics, one log line."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import grpc
from google.protobuf.message import DecodeError
from grpc_status import rpc_status

from bertscope_service import callers
from bertscope_service.door import PROBES, Door, RefusalLog
from bertscope_service.engine.lease import stopping
from bertscope_service.errors import InvalidArgument, Overloaded
from bertscope_service.metrics import MethodMetrics, Metrics
from bertscope_service.request_ids import REQUEST_ID, request_id
from bertscope_service.running import RunningCalls
from bertscope_service.statuses import to_status
from bertscope_service.tracing.calls import NoTracer, Tracer

logger = logging.getLogger("bertscope.requests")

PREFIXES = ("/bertscope.", "/inference.")
QUIET_SECONDS = 0.02
"""No call came for so long: none waits to be accepted, and who waits for an answer has it."""

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Handler: TypeAlias = Any
"""A grpc.RpcMethodHandler; its type hints know nothing of asyncio."""


class CallInterceptor(grpc.aio.ServerInterceptor):
    """Wraps the methods of our own services; health and reflection pass untouched.

    * A request that is not valid protobuf (text that is not UTF-8, for one) is INVALID_ARGUMENT; grpc itself would say UNKNOWN.
    * What a servicer raises becomes a status, once, here.
    * While `draining`, new calls get UNAVAILABLE.
    * Calls that the door turns away are refused before their requests are parsed. All that are refused for want of room share
      a line of the log each second; at the debug level they have their own.
    * Every call has a request id, the caller's `x-request-id` or a new one; it comes back in the trailing metadata. Not in the
      initial one: once that is sent, gRPC clients no longer try a call again.
    """

    def __init__(self, metrics: Metrics, door: Door, identity: callers.Identity, tracer: Tracer | None = None) -> None:
        self._metrics = metrics
        self._door = door
        self._identity = identity
        self._tracer = tracer or NoTracer()
        self._refusals = RefusalLog()
        self._wrapped: dict[str, Handler] = {}
        self._answering = asyncio.Event()
        self._answering.set()
        self._arrived = False
        self.running = RunningCalls()
        self.draining = False

    async def settle(self, seconds: float) -> None:
        """Wait for a moment in which no call runs and none comes in, at most so long.

        Calls wait inside gRPC until the loop takes them, under load for a second. All that came are accepted then.
        """
        end = time.monotonic() + seconds
        self._arrived = True
        while (self._arrived or self.running) and time.monotonic() < end:
            self._arrived = False
            await asyncio.sleep(QUIET_SECONDS)

    @contextlib.asynccontextmanager
    async def holding(self) -> AsyncIterator[None]:
        """Let calls wait for their answers and refusals: who has one asks again at once, and that may be a bad moment."""
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
        method = handler_call_details.method
        wrapped = self._wrapped.get(method)
        if wrapped is None:
            wrapped = await continuation(handler_call_details)
            if wrapped is not None and method.startswith(PREFIXES):
                # Only methods that exist get here, so this grows no further than the contract.
                wrapped = self._wrapped[method] = self._wrap(wrapped, method)
        return wrapped

    def _wrap(self, handler: Handler, path: str) -> Handler:
        counted = MethodMetrics(self._metrics, path.rpartition("/")[2])
        make = grpc.unary_stream_rpc_method_handler if handler.response_streaming else grpc.unary_unary_rpc_method_handler
        call = self._streaming(handler, path, counted) if handler.response_streaming else self._unary(handler, path, counted)
        serialize = handler.response_serializer or bytes
        return make(call, response_serializer=lambda response: counted.sent(serialize(response)))

    def _unary(self, handler: Handler, path: str, counted: MethodMetrics) -> Callable[[bytes, Context], Awaitable[Any]]:
        async def call(raw: bytes, context: Context) -> Any:
            async with self._observed(path, context, counted):
                return await handler.unary_unary(_parse(handler, counted.received(raw)), context)

        return call

    def _streaming(self, handler: Handler, path: str, counted: MethodMetrics) -> Callable[[bytes, Context], AsyncIterator[Any]]:
        async def call(raw: bytes, context: Context) -> AsyncIterator[Any]:
            async with self._observed(path, context, counted):
                responses = handler.unary_stream(_parse(handler, counted.received(raw)), context)
                try:
                    async for response in responses:
                        yield response
                finally:
                    await responses.aclose()

        return call

    @contextlib.asynccontextmanager
    async def _observed(self, path: str, context: Context, counted: MethodMetrics) -> AsyncIterator[None]:
        """Let a call in, count, time, trace and log it, and turn its error into a status."""
        method, call_id = path.rpartition("/")[2], request_id(context.invocation_metadata() or ())
        known = callers.principal.get()
        began, code, level, span = time.perf_counter(), grpc.StatusCode.OK, logging.INFO, None
        counted.began()
        try:
            span = self._tracer.begin(path, context.invocation_metadata() or (), call_id)
            context.set_trailing_metadata(((REQUEST_ID, call_id),))
            if self.draining and method not in PROBES:
                self._metrics.rejected.labels("draining").inc()
                await self._answering.wait()
                raise stopping()
            client = callers.identify(context, self._identity)
            callers.current.set(client)
            with self._door.passed(method, client, context.time_remaining()):
                self.running.begin(context)
                yield
                await self._answering.wait()
        except (asyncio.CancelledError, GeneratorExit):
            late = context.time_remaining() == 0
            code = grpc.StatusCode.DEADLINE_EXCEEDED if late else grpc.StatusCode.CANCELLED
            if self.draining and context not in self.running:
                code = grpc.StatusCode.UNAVAILABLE
            raise
        except Exception as error:
            self.running.end(context)
            status = rpc_status.to_status(to_status(error, call_id))
            code = status.code
            if code is grpc.StatusCode.INTERNAL:
                logger.exception("%s failed", method, extra={"request_id": call_id})
            if isinstance(error, Overloaded):
                level = logging.DEBUG
                self._refusals.note(error)
            try:
                await context.abort(code, status.details, (*status.trailing_metadata, (REQUEST_ID, call_id)))
            except grpc.aio.InternalError:
                # The caller is gone: its deadline passes there in the same moment as here.
                raise asyncio.CancelledError from error
        finally:
            seconds = time.perf_counter() - began
            self.running.end(context)
            counted.ended(code.name, seconds)
            if span is not None:
                span.end(code.name)
            if logger.isEnabledFor(level):
                milliseconds = round(seconds * 1000, 2)
                fields = {"method": method, "code": code.name, "milliseconds": milliseconds, "request_id": call_id}
                if known is not None:
                    fields["client"] = known.name
                if span is not None:
                    fields["trace_id"] = span.trace_id
                logger.log(level, "request", extra=fields)


def _parse(handler: Handler, raw: bytes) -> Any:
    try:
        return handler.request_deserializer(raw)
    except DecodeError as error:
        message = (
            "the request is not a valid protobuf message of this method, or a text in it is not UTF-8; encode text as UTF-8"
        )
        raise InvalidArgument("", message, "MALFORMED_REQUEST") from error
