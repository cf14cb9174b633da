"""Registers the methods of the contract with Ray's gRPC proxy, and corrects how calls end there.

Ray's proxy forwards each call to the ingress unchanged. By itself, it sends an empty message before a status that is not OK on
a stream, and reports the loss of the ingress as INTERNAL, with its own traces in the text.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import grpc

from bertscope_service.contract import HEALTH, METHODS
from bertscope_service.errors import DeadlineExceeded, Overloaded, ServiceError, Unavailable
from bertscope_service.observability.request_ids import request_id
from bertscope_service.ray_serve.calls import Refusal
from bertscope_service.rpc.registration import add_methods
from bertscope_service.rpc.status import DETAILS, STATUSES

RETRY_SECONDS = 1.0

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Handler: TypeAlias = Any
"""A grpc.RpcMethodHandler; its type hints do not cover asyncio."""


def add_services(servicer: object, server: Any) -> None:
    """Registers all services with Ray's proxy. `grpc_servicer_functions` in a configuration of Ray Serve names this
    function."""
    add_methods(Registrar(server), (*METHODS.values(), *HEALTH), lambda method: getattr(servicer, method.name))


class Registrar:
    """Wraps the server of Ray's proxy and corrects the handlers registered with it."""

    def __init__(self, server: Any) -> None:
        self._server = server

    def add_generic_rpc_handlers(self, handlers: Sequence[Any]) -> None:
        # Here Ray replaces the servicer's functions by its own, which call the ingress.
        self._server.add_generic_rpc_handlers(handlers)
        for handler in handlers:
            handler._method_handlers = {path: _corrected(method) for path, method in handler._method_handlers.items()}


def _corrected(handler: Handler) -> Handler:
    if handler.response_streaming:
        return handler._replace(unary_stream=_streaming(handler.unary_stream))
    return handler._replace(unary_unary=_unary(handler.unary_unary))


def _unary(answer: Callable[[Any, Context], Awaitable[bytes]]) -> Callable[[Any, Context], Awaitable[bytes]]:
    async def call(request: Any, context: Context) -> bytes:
        response = await answer(request, context)
        await _end(context)
        return response

    return call


def _streaming(answers: Callable[[Any, Context], AsyncGenerator[bytes, None]]) -> Callable[[Any, Context], Awaitable[None]]:
    # No generator: gRPC would abandon it when the caller disconnects, and free the call, whose peer Ray then reads.
    async def call(request: Any, context: Context) -> None:
        responses = answers(request, context)
        async for response in responses:
            if _status(context) is not grpc.StatusCode.OK:
                continue  # the payload of such a status is not a message
            try:
                await context.write(response)
            except BaseException:
                await _cancel(responses)
                raise
        await _end(context)

    return call


async def _cancel(responses: AsyncGenerator[bytes, None]) -> None:
    """Makes Ray cancel a call. Ray does so only if it is cancelled while it waits for a message, and not while one is sent."""
    waiting = asyncio.ensure_future(anext(responses))
    await asyncio.sleep(0)
    waiting.cancel()
    with contextlib.suppress(asyncio.CancelledError, StopAsyncIteration):
        await waiting


def _status(context: Context) -> grpc.StatusCode:
    """Returns the status that was set. Before, it is None, and some versions of gRPC give numbers."""
    code: Any = context.code()
    return code if isinstance(code, grpc.StatusCode) else STATUSES[code or 0]


async def _end(context: Context) -> None:
    """Replaces Ray's status by ours."""
    status = _status(context)
    # Every status of ours that is not OK has details, and none of Ray's.
    ours = any(name == DETAILS for name, _ in context.trailing_metadata() or ())
    if ours or status in (grpc.StatusCode.OK, grpc.StatusCode.CANCELLED):
        return
    refusal = Refusal.of(_error(status), request_id(context.invocation_metadata() or ()))
    await context.abort(refusal.code, refusal.details, refusal.trailing_metadata)


def _error(status: grpc.StatusCode) -> ServiceError:
    """Returns the error that Ray means by one of its statuses."""
    if status is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return Overloaded("as many calls wait as are let wait; try again later", "INGRESS_BUSY", RETRY_SECONDS)
    if status is grpc.StatusCode.DEADLINE_EXCEEDED:
        message = "the call took longer than the cluster lets one take (request_timeout_s); ask for less at once"
        return DeadlineExceeded(message, "REQUEST_TIMEOUT")
    message = "the process that took this call was lost, or the application is not deployed; ask again"
    return Unavailable(message, "INGRESS_LOST")
