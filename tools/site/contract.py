"""Writes the reference of the contract from the comments of the .proto files: services, calls, messages and their fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tools.protos import schemas
from tools.protos.files import PROTOS, described


def contract_page() -> str:
    """Returns a page with a part for each .proto file of ours."""
    files = [file for file in described(PROTOS, "--include_source_info").file if file.package == "bertscope.v1"]
    lines = [
        "# The contract",
        "",
        "Every call, message and field of `bertscope.v1`, from the comments of the .proto files.",
        "",
    ]
    for file in files:
        lines += _file(file)
    return "\n".join(lines)


def _file(file: Any) -> Iterator[str]:
    said = schemas.comments(file)
    yield f"## {file.name.rpartition('/')[2]}\n"
    for index, service in enumerate(file.service):
        yield f"### {service.name}\n\n{said.get((schemas.SERVICES, index), '')}\n"
        for number, method in enumerate(service.method):
            stream = "a stream of " if method.server_streaming else ""
            reply = f"`{_name(method.input_type)}` gives {stream}`{_name(method.output_type)}`."
            yield f"#### {method.name}\n\n{said.get((schemas.SERVICES, index, schemas.PARTS, number), '')}\n\n{reply}\n"
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
