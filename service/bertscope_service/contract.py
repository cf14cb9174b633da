"""Describes the rpcs of the contract and their options, read once from the descriptors of the generated modules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

from bertscope import inference, v1
from bertscope.v1 import policy_pb2
from google.protobuf.descriptor import FileDescriptor, MethodDescriptor
from google.protobuf.descriptor_pb2 import MethodOptions
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2

REFLECTION = ("grpc.reflection.v1alpha.ServerReflection", "grpc.reflection.v1.ServerReflection")
"""The two names of one service: grpcio-reflection has only the first one."""


class Role(IntEnum):
    """The rights of a caller; each role includes lower ones. See protos/bertscope/v1/policy.proto."""

    ANYONE = 0
    READ = 1
    ADMIN = 2


class Work(Enum):
    """The kind of work of an rpc. See protos/bertscope/v1/policy.proto."""

    PROBE = 1
    INTERACTIVE = 2
    BULK = 3
    WHOLE_DEVICE = 4
    CONTROL = 5


@dataclass(frozen=True, slots=True)
class Method:
    """An rpc: its names, its options, and its messages."""

    service: str
    """The full name of its service, "bertscope.v1.ClozeService"."""

    name: str
    """ "FillMask"."""

    role: Role
    """The lowest role that may call it."""

    work: Work
    whole_process: bool
    """True if only a process that hosts all models can answer it."""

    idempotent: bool
    """True if a failed call may be sent again: it changes nothing."""

    streaming: bool
    """True if its reply is a stream."""

    request: type[Message]
    response: type[Message]

    @property
    def path(self) -> str:
        """ "/bertscope.v1.ClozeService/FillMask", as gRPC names it."""
        return f"/{self.service}/{self.name}"


def _files(package: ModuleType) -> Iterator[FileDescriptor]:
    """Yields the .proto files that define services in a package of generated modules, by name."""
    for module in iter_modules(package.__path__, f"{package.__name__}."):
        if module.name.endswith("_pb2"):
            file: FileDescriptor = import_module(module.name).DESCRIPTOR
            if file.services_by_name:
                yield file


def _rpcs(file: Any) -> Iterator[MethodDescriptor]:  # generated stubs have their own type for descriptors
    for service in file.services_by_name.values():
        yield from service.methods


def _method(rpc: MethodDescriptor, role: Role, work: Work, *, whole_process: bool) -> Method:
    return Method(
        rpc.containing_service.full_name,
        rpc.name,
        role,
        work,
        whole_process,
        rpc.GetOptions().idempotency_level == MethodOptions.NO_SIDE_EFFECTS,
        rpc.server_streaming,
        GetMessageClass(rpc.input_type),
        GetMessageClass(rpc.output_type),
    )


def _declared(rpc: MethodDescriptor) -> Method:
    """Returns a method of ours. Raises KeyError for an rpc without a role or a kind of work."""
    policy = rpc.GetOptions().Extensions[policy_pb2.policy]
    role = Role[policy_pb2.MethodPolicy.Role.Name(policy.role).removeprefix("ROLE_")]
    work = Work[policy_pb2.MethodPolicy.Work.Name(policy.work).removeprefix("WORK_")]
    return _method(rpc, role, work, whole_process=policy.whole_process)


FILES: Sequence[FileDescriptor] = (*_files(v1), *_files(inference))
"""Our own .proto files with services."""

SERVICES = tuple(service.full_name for file in FILES for service in file.services_by_name.values())
"""Full names of our own services."""

METHODS: Mapping[str, Method] = {method.path: method for file in FILES for method in map(_declared, _rpcs(file))}
"""Our own methods, by path."""

HEALTH = tuple(_method(rpc, Role.ANYONE, Work.PROBE, whole_process=True) for rpc in _rpcs(health_pb2.DESCRIPTOR))
"""The methods of grpc.health.v1, whose file is gRPC's own and declares no policy."""

_ROLES: Mapping[str, Role] = {
    **{method.path: method.role for method in (*METHODS.values(), *HEALTH)},
    "/grpc.health.v1.Health/List": Role.ANYONE,  # grpcio-health-checking does not have it yet
    **{f"/{service}/ServerReflectionInfo": Role.READ for service in REFLECTION},
}


def is_known(path: str) -> bool:
    """Returns whether the contract has a method: other names are invented by callers, and may be anything."""
    return path in _ROLES


def required(path: str) -> Role:
    """Returns the lowest role that may call "/package.Service/Method". Methods without a declared role, channelz among them,
    need ADMIN."""
    return _ROLES.get(path, Role.ADMIN)
