"""Authorizes calls before their requests are read."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, NoReturn, TypeAlias

import grpc

from bertscope_service.contract import is_known
from bertscope_service.errors import ServiceError
from bertscope_service.observability.metrics import Metrics
from bertscope_service.observability.request_ids import request_id
from bertscope_service.rpc.load_shedding import RefusalLog
from bertscope_service.rpc.status import sent_status
from bertscope_service.security import callers
from bertscope_service.security.access import REASONS, Access, Metadata

logger = logging.getLogger("bertscope.requests")

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Handler: TypeAlias = Any
"""A grpc.RpcMethodHandler; its type hints do not cover asyncio."""

CERTIFICATE_NAMES = ("x509_subject_alternative_name", "x509_common_name")
"""The connection properties in which gRPC gives the names in a client's certificate, which it has verified by then."""


class AuthorizationInterceptor(grpc.aio.ServerInterceptor):
    """Admits calls by the rules of `Access`. It runs before all other interceptors, and before every method.

    gRPC reads the request of a unary call before it asks the handler. So a rejected call gets a handler for streams, which need
    not read, and its client gets the status while it still sends.
    """

    def __init__(self, access: Access, metrics: Metrics) -> None:
        self._access = access
        self._metrics = metrics
        self._refusals = RefusalLog()
        for reason in REASONS:
            # Starts at 0: Prometheus can't see the increase of a series that begins with 1.
            metrics.rejected.labels(reason.lower())

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        path, metadata = handler_call_details.method, _metadata(handler_call_details.invocation_metadata)
        try:
            if self._access.needs_certificate(path, metadata):
                # Only the call's context knows its connection.
                return self._with_certificate(path, await continuation(handler_call_details))
            # This task also answers the call.
            callers.principal.set(self._access.admit(path, metadata))
        except ServiceError as error:
            refusal = error

            async def refuse(_: AsyncIterator[Any], context: Context) -> None:
                await self._refuse(path, refusal, context)

            return _handle_stream(refuse)
        return await continuation(handler_call_details)

    def _with_certificate(self, path: str, handler: Handler | None) -> Handler | None:
        """Returns the handler, preceded by a check of the connection's certificate."""

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
        """Counts and logs a rejected call, and ends it."""
        method = path.rpartition("/")[2] if is_known(path) else "unknown"
        self._refusals.note(refusal)
        self._metrics.rejected.labels(refusal.reason.lower()).inc()
        call_id = request_id(_metadata(context.invocation_metadata()))
        status = sent_status(refusal, call_id)
        self._metrics.requests.labels(method, status.code.name).inc()
        fields = {"method": method, "code": status.code.name, "client": context.peer(), "request_id": call_id}
        logger.debug("refused", extra=fields)
        try:
            await context.abort(*status)
        except grpc.aio.InternalError:
            raise asyncio.CancelledError from refusal  # the caller is gone


def certificate_names(connection: Mapping[str, Iterable[bytes]]) -> list[str]:
    """Returns the names in the certificate of a connection's client; none if it has shown none."""
    return [name.decode(errors="replace") for key in CERTIFICATE_NAMES for name in connection.get(key) or ()]


async def _answers(handler: Handler, requests: AsyncIterator[Any], context: Context) -> AsyncGenerator[Any, None]:
    """Yields the replies of a handler of any kind to a stream of requests, one request for unary handlers."""
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
    make: Any = grpc.stream_stream_rpc_method_handler  # typed without asyncio
    return make(call, *serializers)


def _metadata(metadata: Any) -> Metadata:
    return metadata or ()
