"""Serves reflection, by which grpcurl, buf curl and similar tools learn the server's methods.

grpcio-reflection serves it under the name v1alpha; v1 is the same on the wire, so both names are served here. It finds services
and messages but no methods ("package.Service.Method"), because protobuf's descriptor pool does not; so a method is looked up
here by its service, which is in the same file.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from typing import Any

import grpc
from google.protobuf.descriptor import FileDescriptor
from grpc_reflection.v1alpha import reflection, reflection_pb2

from bertscope_service.contract import REFLECTION

Request = reflection_pb2.ServerReflectionRequest
Response = reflection_pb2.ServerReflectionResponse


class Reflection:
    """Describes services, and the contents of the files that define them."""

    def __init__(self, services: Iterable[str], protos: Sequence[FileDescriptor]) -> None:
        # Its type hints declare an asynchronous generator as a coroutine.
        self._servicer: Any = reflection.aio.ReflectionServicer(services)
        self._service_of = {
            method.full_name: service.full_name
            for proto in protos
            for service in proto.services_by_name.values()
            for method in service.methods
        }

    async def answer(self, requests: AsyncIterator[Request], context: Any) -> AsyncIterator[Response]:
        """Answers the rpc ServerReflectionInfo."""
        async with (
            contextlib.aclosing(self._by_service(requests)) as named,
            contextlib.aclosing(self._servicer.ServerReflectionInfo(named, context)) as responses,
        ):
            async for response in responses:
                yield response

    async def _by_service(self, requests: AsyncIterator[Request]) -> AsyncGenerator[Request, None]:
        async for request in requests:
            service = self._service_of.get(request.file_containing_symbol)
            yield request if service is None else Request(host=request.host, file_containing_symbol=service)


def add_reflection(server: grpc.aio.Server, services: Iterable[str], protos: Sequence[FileDescriptor]) -> None:
    """Serves the reflection of these services; methods of the files in `protos` are found by their names, too."""
    handle: Any = grpc.stream_stream_rpc_method_handler  # typed without asyncio
    answer = Reflection((*services, reflection.SERVICE_NAME), protos).answer
    handler = handle(answer, Request.FromString, Response.SerializeToString)
    for name in REFLECTION:
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, {"ServerReflectionInfo": handler}),))
