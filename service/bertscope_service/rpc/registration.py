"""Registers methods of the contract with a server, from their descriptors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import grpc
from google.protobuf.message import Message

from bertscope_service.contract import Method


def add_methods(server: Any, methods: Iterable[Method], answers: Callable[[Method], Callable[..., Any]]) -> None:
    """Registers methods with a server; `answers` returns the function that answers a method."""
    services: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for method in methods:
        make: Any = grpc.unary_stream_rpc_method_handler if method.streaming else grpc.unary_unary_rpc_method_handler
        services[method.service][method.name] = make(answers(method), method.request.FromString, _serialise)
    for service, handlers in services.items():
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))


def _serialise(reply: Message | bytes) -> bytes:
    """Returns the bytes of a reply; a servicer may have serialised a large one already, in a thread."""
    return reply if isinstance(reply, bytes) else reply.SerializeToString()
