"""Turns callers away at the server's edge, before their requests are read."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, NoReturn, TypeAlias

import grpc
from grpc_status import rpc_status

from bertscope_service import callers
from bertscope_service.door import RefusalLog
from bertscope_service.errors import ServiceError
from bertscope_service.metrics import Metrics
from bertscope_service.request_ids import REQUEST_ID, request_id
from bertscope_service.security.access import REASONS, Access, Metadata
from bertscope_service.security.roles import is_known
from bertscope_service.statuses import to_status

logger = logging.getLogger("bertscope.requests")

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Handler: TypeAlias = Any
"""A grpc.RpcMethodHandler; its type hints know nothing of asyncio."""

CERTIFICATE_NAMES = ("x509_subject_alternative_name", "x509_common_name")
"""Where gRPC tells the names in a client's certificate, which it has verified by then."""


class Gate(grpc.aio.ServerInterceptor):
    """Lets calls in as `Access` says. It stands before all other interceptors, and before every method.

    gRPC reads the request of a call that is answered once before it asks the handler. So a call that is refused gets a handler
    for streams, which need not read, and its sender is told while it still sends.
    """

    def __init__(self, access: Access, metrics: Metrics) -> None:
        self._access = access
        self._metrics = metrics
        self._refusals = RefusalLog()
        for reason in REASONS:
            # From 0 on: of a series that begins with 1, Prometheus can't see that it grew.
            metrics.rejected.labels(reason.lower())

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        path, metadata = handler_call_details.method, _metadata(handler_call_details.invocation_metadata)
        try:
            if self._access.needs_certificate(path, metadata):
                # Only the call itself knows its connection.
                return self._judging_connection(path, await continuation(handler_call_details))
            # The task that answers the call is this one.
            callers.principal.set(self._access.admit(path, metadata))
        except ServiceError as error:
            refusal = error

            async def refuse(_: AsyncIterator[Any], context: Context) -> None:
                await self._refuse(path, refusal, context)

            return _handle_stream(refuse)
        return await continuation(handler_call_details)

    def _judging_connection(self, path: str, handler: Handler | None) -> Handler | None:
        """The handler behind a check of the certificate that the connection came with."""

        async def call(requests: AsyncIterator[Any], context: Context) -> AsyncGenerator[Any, None]:
            try:
                names = certificate_names(context.auth_context())
                callers.principal.set(self._access.admit(path, _metadata(context.invocation_metadata()), names))
            except ServiceError as error:
                await self._refuse(path, error, context)
            if handler is None:
                await context.abort(grpc.StatusCode.UNIMPLEMENTED, "this server has no such method")
            async with contextlib.aclosing(_answers(handler, requests, context)) as answers:
                async for answer in answers:
                    yield answer

        if handler is None:
            return _handle_stream(call)
        return _handle_stream(call, handler.request_deserializer, handler.response_serializer)

    async def _refuse(self, path: str, refusal: ServiceError, context: Context) -> NoReturn:
        """Count and log a call that is not let in, and end it."""
        method = path.rpartition("/")[2] if is_known(path) else "unknown"
        self._refusals.note(refusal)
        self._metrics.rejected.labels(refusal.reason.lower()).inc()
        call_id = request_id(_metadata(context.invocation_metadata()))
        status = rpc_status.to_status(to_status(refusal, call_id))
        self._metrics.requests.labels(method, status.code.name).inc()
        fields = {"method": method, "code": status.code.name, "client": context.peer(), "request_id": call_id}
        logger.debug("refused", extra=fields)
        try:
            await context.abort(status.code, status.details, (*status.trailing_metadata, (REQUEST_ID, call_id)))
        except grpc.aio.InternalError:
            raise asyncio.CancelledError from refusal  # the caller is gone


def certificate_names(connection: Mapping[str, Iterable[bytes]]) -> list[str]:
    """The names in the certificate of a connection's client; none where it has shown none."""
    return [name.decode(errors="replace") for key in CERTIFICATE_NAMES for name in connection.get(key) or ()]


async def _answers(handler: Handler, requests: AsyncIterator[Any], context: Context) -> AsyncGenerator[Any, None]:
    """What a handler of any kind answers to a stream of requests, one if it takes one."""
    if handler.request_streaming:
        async with contextlib.aclosing(handler.stream_stream(requests, context)) as responses:
            async for response in responses:
                yield response
        return
    async for request in requests:
        if handler.response_streaming:
            async with contextlib.aclosing(handler.unary_stream(request, context)) as responses:
                async for response in responses:
                    yield response
        else:
            answer = handler.unary_unary(request, context)
            yield await answer if inspect.isawaitable(answer) else answer
        return


def _handle_stream(call: Callable[[AsyncIterator[Any], Context], Any], *serializers: Any) -> Handler:
    make: Any = grpc.stream_stream_rpc_method_handler  # knows nothing of asyncio
    return make(call, *serializers)


def _metadata(metadata: Any) -> Metadata:
    return metadata or ()
