"""What happens to every call of ours, in one place: parsing, errors, metrics, one log line."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import grpc
from google.protobuf.message import DecodeError
from grpc_status import rpc_status

from bertscope_service.errors import InvalidArgument, Unavailable
from bertscope_service.metrics import Metrics
from bertscope_service.statuses import to_status

logger = logging.getLogger("bertscope.requests")

PREFIX = "/bertscope."
REQUEST_ID = "x-request-id"
GOOD_REQUEST_ID = re.compile(r"[\w.:-]{1,128}", re.ASCII)

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Handler: TypeAlias = Any
"""A grpc.RpcMethodHandler; its type hints know nothing of asyncio."""


class CallInterceptor(grpc.aio.ServerInterceptor):
    """Wraps the methods of our own services; health and reflection pass untouched.

    * A request that is not valid protobuf (text that is not UTF-8, for one) is INVALID_ARGUMENT; grpc itself would say UNKNOWN.
    * What a servicer raises becomes a status, once, here.
    * While `draining`, new calls get UNAVAILABLE.
    * Every call has a request id, the caller's `x-request-id` or a new one; it comes back in the trailing metadata. Not in the
      initial one: once that is sent, gRPC clients no longer try a call again.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._wrapped: dict[str, Handler] = {}
        self._running = 0
        self._idle = asyncio.Event()
        self.draining = False

    async def drain(self, grace_seconds: float) -> None:
        """Refuse new calls from now on; wait until no call runs, at most so long."""
        self.draining = True
        if self._running:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), grace_seconds)

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        method = handler_call_details.method
        wrapped = self._wrapped.get(method)
        if wrapped is None:
            wrapped = await continuation(handler_call_details)
            if wrapped is not None and method.startswith(PREFIX):
                # Only methods that exist get here, so this grows no further than the contract.
                wrapped = self._wrapped[method] = self._wrap(wrapped, method.rpartition("/")[2])
        return wrapped

    def _wrap(self, handler: Handler, name: str) -> Handler:
        make = grpc.unary_stream_rpc_method_handler if handler.response_streaming else grpc.unary_unary_rpc_method_handler
        call = self._streaming(handler, name) if handler.response_streaming else self._unary(handler, name)
        return make(call, response_serializer=handler.response_serializer)

    def _unary(self, handler: Handler, method: str) -> Callable[[bytes, Context], Awaitable[Any]]:
        async def call(raw: bytes, context: Context) -> Any:
            async with self._observed(method, context):
                return await handler.unary_unary(_parse(handler, raw), context)

        return call

    def _streaming(self, handler: Handler, method: str) -> Callable[[bytes, Context], AsyncIterator[Any]]:
        async def call(raw: bytes, context: Context) -> AsyncIterator[Any]:
            async with self._observed(method, context):
                responses = handler.unary_stream(_parse(handler, raw), context)
                try:
                    async for response in responses:
                        yield response
                finally:
                    await responses.aclose()

        return call

    @contextlib.asynccontextmanager
    async def _observed(self, method: str, context: Context) -> AsyncIterator[None]:
        """Count, time and log a call, and turn its error into a status."""
        request_id = _request_id(context)
        began, code = time.perf_counter(), grpc.StatusCode.OK
        self._metrics.in_flight.labels(method).inc()
        self._running += 1
        try:
            context.set_trailing_metadata(((REQUEST_ID, request_id),))
            if self.draining:
                self._metrics.rejected.labels("draining").inc()
                raise Unavailable("the server is stopping; ask another one", "DRAINING")
            yield
        except (asyncio.CancelledError, GeneratorExit):
            late = context.time_remaining() == 0
            code = grpc.StatusCode.DEADLINE_EXCEEDED if late else grpc.StatusCode.CANCELLED
            raise
        except Exception as error:
            status = rpc_status.to_status(to_status(error, request_id))
            code = status.code
            if code is grpc.StatusCode.INTERNAL:
                logger.exception("%s failed", method, extra={"request_id": request_id})
            await context.abort(code, status.details, (*status.trailing_metadata, (REQUEST_ID, request_id)))
        finally:
            seconds = time.perf_counter() - began
            self._running -= 1
            if self.draining and not self._running:
                self._idle.set()
            self._metrics.in_flight.labels(method).dec()
            self._metrics.requests.labels(method, code.name).inc()
            self._metrics.request_seconds.labels(method).observe(seconds)
            fields = {"method": method, "code": code.name, "milliseconds": round(seconds * 1000, 2), "request_id": request_id}
            logger.info("request", extra=fields)


def _parse(handler: Handler, raw: bytes) -> Any:
    try:
        return handler.request_deserializer(raw)
    except DecodeError as error:
        message = (
            "the request is not a valid protobuf message of this method, or a text in it is not UTF-8; encode text as UTF-8"
        )
        raise InvalidArgument("", message, "MALFORMED_REQUEST") from error


def _request_id(context: Context) -> str:
    for name, value in context.invocation_metadata() or ():
        if name == REQUEST_ID and isinstance(value, str) and GOOD_REQUEST_ID.fullmatch(value):
            return value
    return uuid.uuid4().hex
