"""Serves reflection, by which grpcurl, buf curl and similar tools learn the server's methods.

grpcio-reflection has the version v1alpha alone. v1 differs in its package's name, so both are served and listed here, and the
file of v1 is made from the other one. The library finds services and messages but no methods ("package.Service.Method"),
because protobuf's descriptor pool does not; so a method is looked up here by its service, which is in the same file.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from typing import Any

import grpc
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_reflection.v1alpha import reflection, reflection_pb2

from bertscope_service.contract import REFLECTION

Request = reflection_pb2.ServerReflectionRequest
Response = reflection_pb2.ServerReflectionResponse


def v1_file() -> FileDescriptorProto:
    """Returns the file that defines v1 of reflection. No descriptor pool gets it: another package may bring it."""
    file = FileDescriptorProto()
    reflection_pb2.DESCRIPTOR.CopyToProto(file)
    old, new = file.package, "grpc.reflection.v1"
    file.name, file.package = "grpc/reflection/v1/reflection.proto", new
    for message in file.message_type:
        for field in message.field:
            if field.type_name:
                field.type_name = field.type_name.replace(f".{old}.", f".{new}.")
    for service in file.service:
        for method in service.method:
            method.input_type = method.input_type.replace(f".{old}.", f".{new}.")
            method.output_type = method.output_type.replace(f".{old}.", f".{new}.")
    return file


class Reflection:
    """Describes services, and the contents of the files that define them."""

    def __init__(self, services: Iterable[str], protos: Sequence[FileDescriptor]) -> None:
        # Its type hints declare an asynchronous generator as a coroutine.
        self._servicer: Any = reflection.aio.ReflectionServicer(services)
        file = v1_file()
        self._v1 = file.SerializeToString()
        names = [one.name for one in file.message_type]
        for service in file.service:
            names += [service.name, *(f"{service.name}.{method.name}" for method in service.method)]
        self._names_of_v1 = {f"{file.package}.{name}" for name in names}
        self._file_of_v1 = file.name
        self._service_of = {
            method.full_name: service.full_name
            for proto in protos
            for service in proto.services_by_name.values()
            for method in service.methods
        }

    async def answer(self, requests: AsyncIterator[Request], context: Any) -> AsyncIterator[Response]:
        """Answers the rpc ServerReflectionInfo."""
        async for request in requests:
            if request.file_by_filename == self._file_of_v1 or request.file_containing_symbol in self._names_of_v1:
                files = reflection_pb2.FileDescriptorResponse(file_descriptor_proto=[self._v1])
                yield Response(valid_host=request.host, original_request=request, file_descriptor_response=files)
                continue
            async with contextlib.aclosing(
                self._servicer.ServerReflectionInfo(self._by_service(request), context)
            ) as responses:
                async for response in responses:
                    yield response

    async def _by_service(self, request: Request) -> AsyncGenerator[Request, None]:
        service = self._service_of.get(request.file_containing_symbol)
        yield request if service is None else Request(host=request.host, file_containing_symbol=service)


def add_reflection(server: grpc.aio.Server, services: Iterable[str], protos: Sequence[FileDescriptor]) -> None:
    """Serves the reflection of these services; methods of the files in `protos` are found by their names, too."""
    handle: Any = grpc.stream_stream_rpc_method_handler  # typed without asyncio
    answer = Reflection((*services, *REFLECTION), protos).answer
    handler = handle(answer, Request.FromString, Response.SerializeToString)
    for name in REFLECTION:
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, {"ServerReflectionInfo": handler}),))
