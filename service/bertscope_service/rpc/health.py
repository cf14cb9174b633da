"""Serves grpc.health.v1 for probes and load balancers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any, TypeAlias

import grpc
from grpc_health.v1 import health, health_pb2

from bertscope_service.rpc.calls_in_flight import CallsInFlight

Request = health_pb2.HealthCheckRequest
Response = health_pb2.HealthCheckResponse
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


MAX_WATCHES = 4096
"""The most watches at a time: they need no token, and each takes some memory."""


class Health:
    """The state of the server as a whole (the empty name) and of each of its services, which is the same.

    It replaces grpcio-health-checking's servicer. There, when one of several watchers leaves, the others get no more updates,
    and watches never end, so that a server that stops would have to break connections, which gRPC's clients report on standard
    error.

    It belongs to the event loop.
    """

    def __init__(self, services: Iterable[str]) -> None:
        self._names = frozenset(("", *services))
        self._begun = self._ended = False
        self._pauses: set[str] = set()
        self._changed = asyncio.Event()
        self._watches = CallsInFlight()

    def add_to(self, server: grpc.aio.Server) -> None:
        """Registers the service with a server that has not started."""
        write = Response.SerializeToString
        methods = {
            "Check": grpc.unary_unary_rpc_method_handler(self._check, Request.FromString, write),
            "Watch": grpc.unary_stream_rpc_method_handler(self._watch, Request.FromString, write),
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(health.SERVICE_NAME, methods),))

    @property
    def serving(self) -> bool:
        return self._begun and not self._ended and not self._pauses

    def begin(self) -> None:
        """Sets SERVING, unless the state has ended already."""
        self._begun = True
        self._notify()

    def end(self) -> None:
        """Sets NOT_SERVING for good."""
        self._ended = True
        self._notify()

    def pause(self, why: str) -> None:
        """Sets NOT_SERVING until `resume` is called for the same reason."""
        self._pauses.add(why)
        self._notify()

    def resume(self, why: str) -> None:
        """Sets SERVING again, unless another reason against it remains."""
        self._pauses.discard(why)
        self._notify()

    async def end_watches(self) -> None:
        """Ends all watches with UNAVAILABLE."""
        await self._watches.cut_off()

    async def _check(self, request: Request, context: Context) -> Response:
        if request.service not in self._names:
            await context.abort(grpc.StatusCode.NOT_FOUND, "this server has no such service")
        return self._answer(request)

    async def _watch(self, request: Request, context: Context) -> AsyncIterator[Response]:
        if len(self._watches) >= MAX_WATCHES:
            message = f"{MAX_WATCHES} calls watch this server already; ask with Check, or watch again later"
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, message)
        self._watches.begin(context)
        try:
            while True:
                changed = self._changed  # the current event: changes while the reply is sent are sent after it
                yield self._answer(request)
                await changed.wait()
        finally:
            self._watches.end(context)

    def _answer(self, request: Request) -> Response:
        if request.service not in self._names:
            return Response(status=Response.SERVICE_UNKNOWN)
        return Response(status=Response.SERVING if self.serving else Response.NOT_SERVING)

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
