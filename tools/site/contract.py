"""Writes the reference of the contract from the comments of the .proto files: services, calls, messages and their fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tools.protos import contract, openapi, schemas
from tools.protos.files import PROTOS, described


def contract_page() -> str:
    """Returns a page with a part for each .proto file of ours."""
    found = described(PROTOS, "--include_source_info")
    lines = [
        "# The contract",
        "",
        "Every call, message and field of `bertscope.v1`, from the comments of the .proto files.",
        "The paths are those of JSON over HTTP, [behind Envoy](clients.md#plain-http-with-json-through-envoy):",
        f"[its OpenAPI description](repository/{openapi.PATH}).",
        "",
    ]
    paths = {f"{rpc.service}/{rpc.name}": rpc.http for rpc in contract.read(found)}
    for file in found.file:
        if file.package == "bertscope.v1":
            lines += _file(file, paths)
    return "\n".join(lines)


def _file(file: Any, paths: Mapping[str, tuple[tuple[str, str], ...]]) -> Iterator[str]:
    said = schemas.comments(file)
    yield f"## {file.name.rpartition('/')[2]}\n"
    for index, service in enumerate(file.service):
        yield f"### {service.name}\n\n{said.get((schemas.SERVICES, index), '')}\n"
        for number, method in enumerate(service.method):
            stream = "a stream of " if method.server_streaming else ""
            reply = f"`{_name(method.input_type)}` gives {stream}`{_name(method.output_type)}`."
            yield f"#### {method.name}\n\n{said.get((schemas.SERVICES, index, schemas.PARTS, number), '')}\n\n{reply}\n"
            for verb, path in paths.get(f"{file.package}.{service.name}/{method.name}", ()):
                yield f"- By HTTP: `{verb.upper()} {path}`"
            yield ""
    for index, message in enumerate(file.message_type):
        yield from _message(message, (schemas.MESSAGES, index), said)


def _message(message: Any, path: tuple[int, ...], said: Any) -> Iterator[str]:
    yield f"#### {message.name}\n\n{said.get(path, '')}\n"
    if message.field:
        yield "| field | type | meaning |\n|---|---|---|"
    for index, field in enumerate(message.field):
        kind = (
            _name(field.type_name) or field.DESCRIPTOR.enum_types_by_name["Type"].values_by_number[field.type].name[5:].lower()
        )
        several = "list of " if field.label == field.LABEL_REPEATED else ""
        meaning = " ".join(said.get((*path, schemas.PARTS, index), "").split()).replace("|", "\\|")
        yield f"| `{field.name}` | {several}`{kind}` | {meaning} |"
    yield ""


def _name(type_name: str) -> str:
    return type_name.rpartition(".")[2]
