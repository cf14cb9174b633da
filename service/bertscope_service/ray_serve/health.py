"""Answers grpc.health.v1 and the probes of the Open Inference Protocol from Ray's status."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, TypeAlias

from bertscope.inference import open_inference_pb2
from grpc_health.v1 import health, health_pb2

from bertscope_service import contract
from bertscope_service.errors import NotFound
from bertscope_service.ray_serve.readiness import Readiness

WATCH_SECONDS = 1.0
"""The longest delay of a change for watchers, plus `readiness.FRESH_SECONDS`, while Ray's controller answers."""

SERVICES = frozenset({"", *contract.SERVICES, health.SERVICE_NAME})

Request: TypeAlias = health_pb2.HealthCheckRequest
Response: TypeAlias = health_pb2.HealthCheckResponse
ServingStatus: TypeAlias = Any  # its stubs have no name for it


class Health:
    """Returns the same status for every service: whether all models can be called."""

    def __init__(self, readiness: Readiness) -> None:
        self._readiness = readiness

    async def check(self, request: Request) -> Response:
        """Raises NotFound for a service that is not served."""
        if request.service not in SERVICES:
            raise NotFound(f"there is no service {request.service!r} here", "SERVICE_NOT_FOUND", service=request.service)
        return Response(status=await self._status(request))

    async def watch(self, request: Request) -> AsyncGenerator[Response, None]:
        """Yields the status now, and whenever it changes; never ends."""
        sent: int | None = None
        while True:
            status = await self._status(request)
            if status != sent:
                sent = status
                yield Response(status=status)
            await asyncio.sleep(WATCH_SECONDS)

    async def server_live(self, _: open_inference_pb2.ServerLiveRequest) -> open_inference_pb2.ServerLiveResponse:
        return open_inference_pb2.ServerLiveResponse(live=True)

    async def server_ready(self, _: open_inference_pb2.ServerReadyRequest) -> open_inference_pb2.ServerReadyResponse:
        return open_inference_pb2.ServerReadyResponse(ready=await self._readiness.ready())

    async def _status(self, request: Request) -> ServingStatus:
        if request.service not in SERVICES:
            return Response.SERVICE_UNKNOWN
        return Response.SERVING if await self._readiness.ready() else Response.NOT_SERVING
