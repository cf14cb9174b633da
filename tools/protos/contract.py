"""Reads the options of each rpc from the descriptors of the .proto files, without the generated modules, which may be stale."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

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


def read(files: Any) -> list[Rpc]:
    """Returns the rpcs in descriptors, by service; see files.described. Raises ValueError for one without a policy."""
    pool = files.DESCRIPTOR.file.pool
    policy, http = (pool.FindExtensionByName(name) for name in ("bertscope.v1.policy", "google.api.http"))
    rpcs = (
        _rpc(
            f"{file.package}.{service.name}",
            method,
            method.options,
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
