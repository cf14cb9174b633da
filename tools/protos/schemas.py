"""Makes JSON schemas (2020-12) of the contract's messages, with their comments and the rules of their fields.

They describe protobuf's JSON: names in lowerCamelCase, 64-bit numbers as numbers or strings, bytes in base64, enums by name.
OpenAPI (openapi.py) and the tools that an agent gets (bertscope_workbench.agents) are made from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto

from tools.protos.rules import NUMBERS, Contract, Field, Rules

Schema = dict[str, Any]

MESSAGES, ENUMS, SERVICES, NESTED, NESTED_ENUMS, PARTS = 4, 5, 6, 3, 4, 2
"""Numbers of the fields of FileDescriptorProto and DescriptorProto that the paths of comments are made of."""

WELL_KNOWN: Mapping[str, Schema] = {
    "google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
    "google.protobuf.Duration": {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]+)?s$"},
}
NOT_BLANK = r"\S"
"""The rule of texts that must not be blank, as a regular expression of ECMAScript and of Python."""

MOST_UINT32 = 2**32 - 1


def reference(name: str) -> Schema:
    """Returns a reference to the schema of a message or an enum of the contract, by its full name."""
    return {"$ref": f"#/components/schemas/{short(name)}"}


def short(name: str) -> str:
    """Returns the name of a schema: a full name without the package."""
    return name.removeprefix(".").removeprefix("bertscope.v1.")


def comments(file: Any) -> dict[tuple[int, ...], str]:
    """Returns the comments of a file by their paths, each paragraph in one line."""
    located = file.source_code_info.location
    return {tuple(place.path): _lines(place.leading_comments) for place in located if place.leading_comments}


def _lines(comment: str) -> str:
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in comment.split("\n\n") if paragraph.split())


def schemas(files: Any, contract: Contract) -> dict[str, Schema]:
    """Returns the schemas of all messages and enums of bertscope.v1 by their short names; see files.described."""
    found: dict[str, Schema] = {}
    for file in files.file:
        if file.package == "bertscope.v1":
            said = comments(file)
            for index, enum in enumerate(file.enum_type):
                found[enum.name] = _enum(enum, (ENUMS, index), said)
            for index, message in enumerate(file.message_type):
                found |= _messages(message, message.name, (MESSAGES, index), said, contract)
    return found


def reachable(names: Iterator[str] | list[str], found: Mapping[str, Schema]) -> set[str]:
    """Returns the names of these schemas and of all that they refer to."""
    seen: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += references(found[name])
    return seen


def references(schema: Any) -> Iterator[str]:
    """Yields the names of the schemas that a schema refers to."""
    if isinstance(schema, dict):
        if isinstance(target := schema.get("$ref"), str):
            yield target.rpartition("/")[2]
        for part in schema.values():
            yield from references(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from references(part)


def _enum(enum: Any, path: tuple[int, ...], said: Mapping[tuple[int, ...], str]) -> Schema:
    values = [f"- `{value.name}`: {said.get((*path, PARTS, index), '')}" for index, value in enumerate(enum.value)]
    description = "\n\n".join(filter(None, (said.get(path), "\n".join(values))))
    return {"type": "string", "description": description, "enum": [value.name for value in enum.value]}


def _messages(
    message: Any, name: str, path: tuple[int, ...], said: Mapping[tuple[int, ...], str], contract: Contract
) -> Iterator[tuple[str, Schema]]:
    for index, enum in enumerate(message.enum_type):
        yield f"{name}.{enum.name}", _enum(enum, (*path, NESTED_ENUMS, index), said)
    for index, nested in enumerate(message.nested_type):
        if not nested.options.map_entry:
            yield from _messages(nested, f"{name}.{nested.name}", (*path, NESTED, index), said, contract)
    entries = {f".bertscope.v1.{name}.{one.name}": one for one in message.nested_type if one.options.map_entry}
    fields = contract.messages[f"bertscope.v1.{name}"].fields
    properties, required = {}, []
    for index, (field, declared) in enumerate(zip(message.field, fields, strict=True)):
        schema = _map(entries[field.type_name]) if field.type_name in entries else _field(declared)
        properties[field.json_name] = {**_described(schema, said.get((*path, PARTS, index)))}
        if _is_required(declared):
            required.append(field.json_name)
    schema = {"type": "object", "description": _with_choices(message, said.get(path, "")), "properties": properties}
    if required:
        schema["required"] = required
    yield name, schema


def _with_choices(message: Any, comment: str) -> str:
    """Returns a message's comment with a sentence for each of its oneofs."""
    sentences = []
    for index in range(len(message.oneof_decl)):
        own = [f for f in message.field if f.HasField("oneof_index") and f.oneof_index == index and not f.proto3_optional]
        if own:
            sentences.append(f"Only one of {', '.join(field.json_name for field in own)} is set.")
    return " ".join(filter(None, (comment, *sentences)))


def _described(schema: Schema, comment: str | None) -> Schema:
    return {"description": comment, **schema} if comment else schema


def _map(entry: Any) -> Schema:
    value = FieldDescriptorProto.Type.Name(entry.field[1].type).removeprefix("TYPE_").lower()
    return {"type": "object", "additionalProperties": _plain({"string": "text"}.get(value, value))}


def _field(field: Field) -> Schema:
    if field.items is None:
        schema = _single(field.rules, field.type)
    else:
        schema = {"type": "array", "items": _single(field.items, field.type)}
        if field.rules.least and not field.rules.zero:
            schema["minItems"] = int(field.rules.least)
        if field.rules.most is not None:
            schema["maxItems"] = int(field.rules.most)
        if field.rules.unique:
            schema["uniqueItems"] = True
    if field.rules.bound:
        schema["x-bertscope-range"] = field.rules.bound
    if field.rules.default:
        schema["x-bertscope-default"] = field.rules.default
    return schema


def _single(rules: Rules, type_name: str) -> Schema:
    if rules.kind == "message":
        return dict(WELL_KNOWN[type_name]) if type_name in WELL_KNOWN else reference(type_name)
    if rules.kind == "enum":
        return (
            {"type": "string", "enum": list(rules.values)} if rules.numbers and 0 not in rules.numbers else reference(type_name)
        )
    schema = _plain(rules.kind)
    if rules.kind == "text":
        if rules.least:
            schema["minLength"] = int(rules.least)
        if rules.most is not None:
            schema["maxLength"] = int(rules.most)
        if rules.not_blank:
            schema["pattern"] = NOT_BLANK
    elif rules.kind in NUMBERS:
        schema |= _bounds(rules)
    return schema


def _plain(kind: str) -> Schema:
    """Returns the schema of a scalar without rules."""
    if kind in ("int64", "sint64", "uint64", "fixed64"):
        return {"type": ["integer", "string"], "format": "int64"}
    if kind in ("int32", "sint32", "uint32", "fixed32"):
        return (
            {"type": "integer", "minimum": 0, "maximum": MOST_UINT32} if kind in ("uint32", "fixed32") else {"type": "integer"}
        )
    if kind in ("double", "float"):
        # JSON has no infinities and no NaN: protobuf writes them as strings.
        return {"type": ["number", "string"], "format": kind}
    return {
        "text": {"type": "string"},
        "bytes": {"type": "string", "contentEncoding": "base64"},
        "bool": {"type": "boolean"},
    }[kind]


def _bounds(rules: Rules) -> Schema:
    """Returns the range of a number."""
    found: Schema = {}
    if rules.finite or rules.least is not None or rules.most is not None:
        found["type"] = ["integer", "string"] if rules.kind in ("int64", "uint64") else _plain(rules.kind)["type"]
        if rules.kind in ("double", "float"):
            found["type"] = "number"
    if rules.most is not None:
        found["exclusiveMaximum" if rules.under else "maximum"] = _number(rules.most)
    if rules.least is not None and not rules.zero:
        found["exclusiveMinimum" if rules.over else "minimum"] = _number(rules.least)
    elif rules.least is not None and (rules.least > 1 or (rules.least > 0 and rules.kind in ("double", "float"))):
        found["anyOf"] = [{"const": 0}, {"exclusiveMinimum" if rules.over else "minimum": _number(rules.least)}]
    return found


def _number(value: float) -> float | int:
    return int(value) if float(value).is_integer() else value


def _is_required(field: Field) -> bool:
    """Says whether the server rejects a message without this field, whatever the other fields are."""
    rules = field.rules
    if field.optional or rules.default:
        return field.required or rules.required
    if field.items is not None:
        return bool(rules.least) and not rules.zero
    blank = rules.not_blank or (rules.kind == "text" and bool(rules.least) and not rules.zero)
    return rules.required or blank or (rules.kind == "enum" and bool(rules.numbers) and 0 not in rules.numbers)
