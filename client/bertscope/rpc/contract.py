"""Describes the rpcs of the contract and their options, read once from the descriptors of the generated modules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from pkgutil import iter_modules

from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.descriptor_pb2 import MethodOptions

import bertscope.v1 as v1


def _services() -> Iterator[ServiceDescriptor]:
    for module in iter_modules(v1.__path__, f"{v1.__name__}."):
        if module.name.endswith("_pb2"):
            yield from import_module(module.name).DESCRIPTOR.services_by_name.values()


_SERVICES = tuple(_services())

SERVICES = tuple(service.full_name for service in _SERVICES)
"""Full names of the services, ordered by their files."""

METHODS: Sequence[MethodDescriptor] = tuple(method for service in _SERVICES for method in service.methods)

IDEMPOTENT = tuple(method for method in METHODS if method.GetOptions().idempotency_level == MethodOptions.NO_SIDE_EFFECTS)
"""Methods that may be retried when the server was not reached; a stream is retried only before its first message. A benchmark
is not among them: it makes all other callers wait, so it runs only once per request."""

PATHS = {method.input_type.full_name: f"/{method.containing_service.full_name}/{method.name}" for method in METHODS}
"""Paths of the methods by their requests; every method has its own request."""
