"""grpc.health.v1: what probes and balancers ask."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any, TypeAlias

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health, health_pb2

from bertscope_service.running import RunningCalls

Request = health_pb2.HealthCheckRequest
Response = health_pb2.HealthCheckResponse
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


MAX_WATCHES = 4096
"""Who watches needs no token, and each watch some memory."""

MALFORMED = "the request is not a grpc.health.v1.HealthCheckRequest"


class Health:
    """The state of the server as a whole (the empty name) and of each of its services, which is the same.

    Not grpcio-health-checking's servicer: there, when one of several watchers leaves, the others hear nothing more, and watches
    never end, so that a server that stops would have to break connections, of which gRPC's clients complain on standard error.
    Nor its registration: gRPC would write a trace into the log for each request that can't be read, from anybody.

    Belongs to the event loop.
    """

    def __init__(self, services: Iterable[str]) -> None:
        self._names = frozenset(("", *services))
        self._begun = self._ended = False
        self._changed = asyncio.Event()
        self._watches = RunningCalls()

    def add_to(self, server: grpc.aio.Server) -> None:
        """Answer the calls of a server that has not begun."""
        write = Response.SerializeToString
        methods = {
            "Check": grpc.unary_unary_rpc_method_handler(self._check, _parse, write),
            "Watch": grpc.unary_stream_rpc_method_handler(self._watch, _parse, write),
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(health.SERVICE_NAME, methods),))

    @property
    def serving(self) -> bool:
        return self._begun and not self._ended

    def begin(self) -> None:
        """SERVING, unless it is over already."""
        self._begun = True
        self._tell()

    def end(self) -> None:
        """NOT_SERVING, for good."""
        self._ended = True
        self._tell()

    async def end_watches(self) -> None:
        """UNAVAILABLE to all who still watch."""
        await self._watches.cut_off()

    async def _check(self, request: Request | None, context: Context) -> Response:
        if request is None:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, MALFORMED)
        if request.service not in self._names:
            await context.abort(grpc.StatusCode.NOT_FOUND, "this server has no such service")
        return self._answer(request)

    async def _watch(self, request: Request | None, context: Context) -> AsyncIterator[Response]:
        if request is None:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, MALFORMED)
        if len(self._watches) >= MAX_WATCHES:
            message = f"{MAX_WATCHES} calls watch this server already; ask with Check, or watch again later"
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, message)
        self._watches.begin(context)
        try:
            while True:
                changed = self._changed  # of now: what changes while the answer leaves is told after it
                yield self._answer(request)
                await changed.wait()
        finally:
            self._watches.end(context)

    def _answer(self, request: Request) -> Response:
        if request.service not in self._names:
            return Response(status=Response.SERVICE_UNKNOWN)
        return Response(status=Response.SERVING if self.serving else Response.NOT_SERVING)

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def _parse(raw: bytes) -> Request | None:
    try:
        return Request.FromString(raw)
    except DecodeError:
        return None
