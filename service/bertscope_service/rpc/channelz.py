"""Serves grpc.channelz.v1: gRPC's own data about its connections, for operators.

The servicer of grpcio-channelz answers INTERNAL to requests for a socket or a channel as soon as grpcio is newer and reports a
field that its messages lack. Here such fields are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import grpc
from google.protobuf import json_format
from google.protobuf.message_factory import GetMessageClass
from grpc_channelz.v1 import channelz_pb2

cygrpc: Any = import_module("grpc._cython.cygrpc")
"""Private, and without types; grpcio-channelz has no other way either."""

SERVICE = channelz_pb2.DESCRIPTOR.services_by_name["Channelz"]

ANSWERS: dict[str, Callable[[Any], str]] = {
    "GetTopChannels": lambda request: cygrpc.channelz_get_top_channels(request.start_channel_id),
    "GetServers": lambda request: cygrpc.channelz_get_servers(request.start_server_id),
    "GetServer": lambda request: cygrpc.channelz_get_server(request.server_id),
    "GetServerSockets": lambda request: cygrpc.channelz_get_server_sockets(
        request.server_id, request.start_socket_id, request.max_results
    ),
    "GetChannel": lambda request: cygrpc.channelz_get_channel(request.channel_id),
    "GetSubchannel": lambda request: cygrpc.channelz_get_subchannel(request.subchannel_id),
    "GetSocket": lambda request: cygrpc.channelz_get_socket(request.socket_id),
}
"""Functions that return gRPC's answers as JSON. They raise ValueError for an unknown number."""


def add_channelz(server: grpc.aio.Server) -> None:
    """Serves grpc.channelz.v1, which describes all gRPC servers and channels of the process."""
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(SERVICE.full_name, {name: _handler(name) for name in ANSWERS}),)
    )


def _handler(name: str) -> Any:
    method: Any = SERVICE.methods_by_name[name]
    request, response = GetMessageClass(method.input_type), GetMessageClass(method.output_type)

    async def answer(asked: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        try:
            return json_format.Parse(ANSWERS[name](asked), response(), ignore_unknown_fields=True)
        except ValueError:
            await context.abort(grpc.StatusCode.NOT_FOUND, "there is no such server, channel or socket (any more)")

    handle: Any = grpc.unary_unary_rpc_method_handler  # typed without asyncio
    return handle(answer, request.FromString, response.SerializeToString)
