"""What Ray's gRPC proxy loads: our generated functions, and a correction of how calls end.

Ray's proxy takes each call to the ingress as it is. Left alone, it sends an empty message before a status that is not OK on a
stream, and calls the loss of the ingress INTERNAL, with traces of its own in the text.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import grpc
from bertscope.inference.open_inference_pb2_grpc import add_GRPCInferenceServiceServicer_to_server
from bertscope.v1.ablation_pb2_grpc import add_AblationServiceServicer_to_server
from bertscope.v1.attention_pb2_grpc import add_AttentionServiceServicer_to_server
from bertscope.v1.benchmark_pb2_grpc import add_BenchmarkServiceServicer_to_server
from bertscope.v1.classification_pb2_grpc import add_ClassificationServiceServicer_to_server
from bertscope.v1.cloze_pb2_grpc import add_ClozeServiceServicer_to_server
from bertscope.v1.model_pb2_grpc import add_ModelServiceServicer_to_server
from grpc_health.v1.health_pb2_grpc import add_HealthServicer_to_server

from bertscope_service.errors import DeadlineExceeded, Overloaded, ServiceError, Unavailable
from bertscope_service.ray_serve.calls import Refusal
from bertscope_service.request_ids import request_id

GENERATED: Sequence[Any] = (
    add_ModelServiceServicer_to_server,
    add_AttentionServiceServicer_to_server,
    add_ClozeServiceServicer_to_server,
    add_ClassificationServiceServicer_to_server,
    add_AblationServiceServicer_to_server,
    add_BenchmarkServiceServicer_to_server,
    add_GRPCInferenceServiceServicer_to_server,
    add_HealthServicer_to_server,
)
STATUSES = {status.value[0]: status for status in grpc.StatusCode}
DETAILS = "grpc-status-details-bin"
"""Every status of ours that is not OK has it, and none of Ray's."""

RETRY_SECONDS = 1.0

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Handler: TypeAlias = Any
"""A grpc.RpcMethodHandler; its type hints know nothing of asyncio."""


def add_services(servicer: object, server: Any) -> None:
    """Register all services with Ray's proxy. `grpc_servicer_functions` of a configuration of Ray Serve names it."""
    for add in GENERATED:
        add(servicer, Registrar(server))


class Registrar:
    """Stands between the generated functions and the server of Ray's proxy."""

    def __init__(self, server: Any) -> None:
        self._server = server

    def add_generic_rpc_handlers(self, handlers: Sequence[Any]) -> None:
        # Here Ray puts functions of its own, which call the ingress, in the place of the servicer's.
        self._server.add_generic_rpc_handlers(handlers)
        for handler in handlers:
            handler._method_handlers = {path: _corrected(method) for path, method in handler._method_handlers.items()}

    def add_registered_method_handlers(self, service: str, handlers: object) -> None:
        """Not passed on: it is the same once more, and would come before what is corrected."""


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
    # No generator: gRPC would leave it where it is when the caller goes, and forget the call, of which Ray then asks the peer.
    async def call(request: Any, context: Context) -> None:
        responses = answers(request, context)
        async for response in responses:
            if _status(context) is not grpc.StatusCode.OK:
                continue  # what comes with such a status is no message
            try:
                await context.write(response)
            except BaseException:
                await _cancel(responses)
                raise
        await _end(context)

    return call


async def _cancel(responses: AsyncGenerator[bytes, None]) -> None:
    """Make Ray cancel a call. It does so only if it is cancelled while it waits for a message, and not while one is sent."""
    waiting = asyncio.ensure_future(anext(responses))
    await asyncio.sleep(0)
    waiting.cancel()
    with contextlib.suppress(asyncio.CancelledError, StopAsyncIteration):
        await waiting


def _status(context: Context) -> grpc.StatusCode:
    """What was set. Before, it is None, and some versions of gRPC give numbers."""
    code: Any = context.code()
    return code if isinstance(code, grpc.StatusCode) else STATUSES[code or 0]


async def _end(context: Context) -> None:
    """Put our words in the place of Ray's."""
    status = _status(context)
    ours = any(name == DETAILS for name, _ in context.trailing_metadata() or ())
    if ours or status in (grpc.StatusCode.OK, grpc.StatusCode.CANCELLED):
        return
    refusal = Refusal.of(_error(status), request_id(context.invocation_metadata() or ()))
    await context.abort(refusal.code, refusal.details, refusal.trailing_metadata)


def _error(status: grpc.StatusCode) -> ServiceError:
    """What Ray means by a status of its own."""
    if status is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return Overloaded("as many calls wait as are let wait; try again later", "INGRESS_BUSY", RETRY_SECONDS)
    if status is grpc.StatusCode.DEADLINE_EXCEEDED:
        message = "the call took longer than the cluster lets one take (request_timeout_s); ask for less at once"
        return DeadlineExceeded(message, "REQUEST_TIMEOUT")
    message = "the process that took this call was lost, or the application is not deployed; ask again"
    return Unavailable(message, "INGRESS_LOST")
