"""Reads the options of each rpc from the descriptors of the .proto files, without the generated modules, which may be stale."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

NO_SIDE_EFFECTS = 1
"""A value of google.protobuf.MethodOptions.IdempotencyLevel."""


class Rpc(NamedTuple):
    """An rpc of ours."""

    service: str
    """Full name of its service."""

    name: str
    role: str
    """"anyone", "read" or "admin"."""

    work: str
    """"probe", "interactive", "bulk", "whole_device" or "control"."""

    idempotent: bool
    """True if a failed call may be sent again."""

    streaming: bool
    """True if its reply is a stream."""

    interventions: bool
    """True if its request takes head interventions."""

    http: tuple[tuple[str, str], ...]
    """Verb and path of each way to make a call over HTTP."""

    @property
    def path(self) -> str:
        return f"/{self.service}/{self.name}"


def read(descriptors: Path) -> list[Rpc]:
    """Returns the rpcs in a serialised FileDescriptorSet with its imports, by service. Raises ValueError for one without a
    policy."""
    files = FileDescriptorSet.FromString(descriptors.read_bytes())
    pool = DescriptorPool()
    for file in files.file:
        pool.Add(file)
    # Options of a separate pool, which know its extensions.
    options = GetMessageClass(pool.FindMessageTypeByName("google.protobuf.MethodOptions"))
    policy, http = (pool.FindExtensionByName(name) for name in ("bertscope.v1.policy", "google.api.http"))
    rpcs = (
        _rpc(
            f"{file.package}.{service.name}",
            method,
            options.FromString(method.options.SerializeToString()),
            policy,
            http,
            pool.FindMessageTypeByName(method.input_type.removeprefix(".")).fields_by_name,
        )
        for file in files.file
        for service in file.service
        for method in service.method
    )
    return sorted(rpcs, key=lambda rpc: rpc.service)


def _rpc(service: str, method: Any, options: Any, policy: Any, http: Any, fields: Any) -> Rpc:
    declared = options.Extensions[policy]
    role, work = (_value(declared, field) for field in ("role", "work"))
    if "unspecified" in (role, work):
        raise ValueError(f"{service}.{method.name} lacks its (bertscope.v1.policy): give it a role and a kind of work")
    idempotent = options.idempotency_level == NO_SIDE_EFFECTS
    paths = tuple(_http(options.Extensions[http]))
    return Rpc(service, method.name, role, work, idempotent, method.server_streaming, "interventions" in fields, paths)


def _value(message: Any, field: str) -> str:
    """Returns the name of an enum's value without its prefix, in small letters."""
    values = message.DESCRIPTOR.fields_by_name[field].enum_type.values_by_number
    return str(values[getattr(message, field)].name).removeprefix(f"{field.upper()}_").lower()


def _http(rule: Any) -> Iterator[tuple[str, str]]:
    for one in (rule, *rule.additional_bindings):
        if verb := one.WhichOneof("pattern"):
            yield verb.upper(), getattr(one, verb)
